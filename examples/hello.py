"""The smallest job: says hello, and leaves a result.

    tickwise run examples/hello.py --now --follow
    tickwise run examples/hello.py --cron '*/5 * * * *' --param name=Ada

Standard library only. What a job is told about itself stands in its environment.
"""

import json
import os
from pathlib import Path

payload = json.loads(os.environ.get("TICKWISE_PAYLOAD") or "{}")
name = payload.get("name", "world")
attempt = os.environ.get("TICKWISE_ATTEMPT", "1")

print(f"Hello, {name}! This is run {os.environ.get('TICKWISE_RUN_ID', '(started by hand)')}, attempt {attempt}.")
print(f"It was due at {os.environ.get('TICKWISE_DUE_TIME', '(no time)')}.")

# What is written to this file is kept as the run's result: `tickwise runs show RUN`.
if "TICKWISE_RESULT_FILE" in os.environ:
    Path(os.environ["TICKWISE_RESULT_FILE"]).write_text(json.dumps({"greeted": name}), encoding="utf-8")
