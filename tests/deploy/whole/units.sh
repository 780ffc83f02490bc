# What docs/how-to/deploy.md tells an operator to do on a machine with systemd and PostgreSQL. The wheels are in /wheels, the tree's
# deploy/ in /srv/deploy; $1 is the admin key.
set -eu
cd /srv
python3 -m venv /opt/tickwise
/opt/tickwise/bin/pip install --quiet --no-index --find-links /wheels 'tickwise[kafka,redis,calendars,otel]'
cp deploy/systemd/tickwise.sysusers.conf /usr/lib/sysusers.d/tickwise.conf && systemd-sysusers
cp deploy/systemd/tickwise.tmpfiles.conf /usr/lib/tmpfiles.d/tickwise.conf && systemd-tmpfiles --create tickwise.conf
cp deploy/systemd/tickwise*.service deploy/systemd/tickwise.target /etc/systemd/system/
install -d -m 0700 /etc/tickwise /etc/tickwise/api /etc/tickwise/scheduler /etc/tickwise/executor \
    /etc/tickwise/recorder /etc/tickwise/migrations
systemctl start postgresql
query() { su postgres -c "psql --quiet --set ON_ERROR_STOP=1" ; }
{
    echo "CREATE ROLE tickwise LOGIN PASSWORD 'of-the-owner';"
    echo "CREATE DATABASE tickwise OWNER tickwise;"
    for service in api search identity web scheduler recorder executor; do
        echo "CREATE ROLE tickwise_$service LOGIN PASSWORD 'of-$service';"
    done
} | query
umask 077
echo 'database_url = "postgresql://tickwise:of-the-owner@127.0.0.1/tickwise"' >/etc/tickwise/migrations/secrets.toml
for service in api scheduler executor; do
    echo "database_url = \"postgresql://tickwise_$service:of-$service@127.0.0.1/tickwise\"" >/etc/tickwise/$service/secrets.toml
done
echo "bootstrap_key = \"$1\"" >>/etc/tickwise/api/secrets.toml
echo 'drain_seconds = 30' >/etc/tickwise/service.toml
systemctl daemon-reload
systemctl enable --now tickwise.target tickwise-migrations tickwise-api tickwise-scheduler tickwise-executor
