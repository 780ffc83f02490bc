import com.github.kagkarlsson.scheduler.Scheduler;
import com.github.kagkarlsson.scheduler.SchedulerBuilder;
import com.github.kagkarlsson.scheduler.SchedulerClient;
import com.github.kagkarlsson.scheduler.task.SchedulableInstance;
import com.github.kagkarlsson.scheduler.task.helper.OneTimeTask;
import com.github.kagkarlsson.scheduler.task.helper.Tasks;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;

/** db-scheduler: see bench/peers/program.py for what is asked of a driver. */
public final class Driver {
  private static final int BATCH = 500;
  private static final boolean BEST = "best".equals(System.getenv("PEER_SETTINGS"));
  private static final int THREADS = BEST ? 50 : 10;

  /** What the threads of this process have run. */
  private static final class Buffer {
    private double first = Double.NaN;
    private final List<String> ids = new ArrayList<>();
    private final List<Double> late = new ArrayList<>();

    synchronized void put(String id, Long due) {
      Instant now = Instant.now();
      double milliseconds = now.getEpochSecond() * 1e3 + now.getNano() / 1e6;
      if (Double.isNaN(first)) {
        first = milliseconds / 1e3;
      }
      ids.add(id);
      if (due != null) {
        late.add(milliseconds - due);
      }
    }

    synchronized int size() {
      return ids.size();
    }

    synchronized String json() {
      return "{\"first\":" + (Double.isNaN(first) ? "null" : first) + ",\"ids\":" + ids + ",\"late_ms\":" + late + "}";
    }
  }

  private final HikariDataSource database = database();
  private final Buffer buffer = new Buffer();

  // The data is when the job is due, in milliseconds since 1970; nothing for one that is due at once.
  private final OneTimeTask<Long> noop =
      Tasks.oneTime("noop", Long.class).execute((instance, context) -> buffer.put(instance.getId(), instance.getData()));

  /** The address as libpq writes it, with a folder of sockets for a host, as Java wants it. */
  private static HikariDataSource database() {
    URI address = URI.create(System.getenv("PEER_DATABASE_URL"));
    String[] account = address.getRawAuthority().split("@")[0].split(":", 2);
    HikariConfig config = new HikariConfig();
    String query = address.getRawQuery();
    String socket = query == null ? null : query.replaceFirst("^(.*&)?host=([^&]*).*$", "$2");
    String server = socket == null ? address.getRawAuthority().replaceFirst("^.*@", "") : "localhost";
    config.setJdbcUrl("jdbc:postgresql://" + server + address.getPath() + "?reWriteBatchedInserts=true");
    config.setUsername(account[0]);
    config.setPassword(account.length > 1 ? plain(account[1]) : null);
    if (socket != null) {
      config.addDataSourceProperty("socketFactory", "org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg");
      config.addDataSourceProperty("socketFactoryArg", plain(socket) + "/.s.PGSQL.5432");
      config.addDataSourceProperty("sslMode", "disable");
    }
    config.setMaximumPoolSize(BEST ? 20 : 10);
    return new HikariDataSource(config);
  }

  private static String plain(String encoded) {
    return URLDecoder.decode(encoded.replace("+", "%2B"), StandardCharsets.UTF_8);
  }

  private void setup() throws Exception {
    String schema = Files.readString(Path.of("schema.sql"));
    try (var connection = database.getConnection(); var statement = connection.createStatement()) {
      statement.execute(schema);
    }
  }

  private void add(SchedulerClient client, long from, long count, long first, long step) {
    for (long at = 0; at < count; at += BATCH) {
      List<SchedulableInstance<?>> jobs = new ArrayList<>(BATCH);
      for (long number = at; number < Math.min(at + BATCH, count); number++) {
        Long due = first == 0 ? null : first + number * step;
        Instant time = due == null ? Instant.now() : Instant.ofEpochMilli(due);
        jobs.add(SchedulableInstance.of(noop.instance(Long.toString(from + number), due), time));
      }
      client.scheduleBatch(jobs);
    }
  }

  private SchedulerClient client() {
    return SchedulerClient.Builder.create(database, noop).build();
  }

  private void enqueue(String[] words) {
    long[] numbers = new long[4];
    for (int at = 1; at < words.length; at++) {
      numbers[at - 1] = Long.parseLong(words[at]);
    }
    add(client(), numbers[0], numbers[1], numbers[2], numbers[3]);
  }

  private void produce() throws Exception {
    SchedulerClient client = client();
    System.out.println("ready");
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
    long total = 0;
    for (String line; (line = input.readLine()) != null; ) {
      long wanted = Long.parseLong(line);
      add(client, total, wanted, 0, 0);
      total += wanted;
      System.out.println("enqueued " + total);
    }
  }

  private void work() throws Exception {
    SchedulerBuilder builder = Scheduler.create(database, noop).threads(THREADS);
    if (BEST) {
      // https://github.com/kagkarlsson/db-scheduler/blob/master/docs/performance.md
      builder.pollUsingLockAndFetch(0.5, 4.0).pollingInterval(Duration.ofMillis(100));
    }
    Scheduler scheduler = builder.build();
    scheduler.start();
    System.out.println("ready");
    Thread teller = new Thread(this::tell);
    teller.setDaemon(true);
    teller.start();
    while (System.in.read() >= 0) {}
    scheduler.stop();
    Files.writeString(Path.of(System.getenv("PEER_RECORD")), buffer.json());
  }

  private void tell() {
    for (int said = 0; ; ) {
      int handled = buffer.size();
      if (handled != said) {
        said = handled;
        System.out.println("handled " + said);
      }
      try {
        Thread.sleep(10);
      } catch (InterruptedException stop) {
        return;
      }
    }
  }

  public static void main(String[] words) throws Exception {
    Driver driver = new Driver();
    switch (words[0]) {
      case "setup" -> driver.setup();
      case "enqueue" -> driver.enqueue(words);
      case "produce" -> driver.produce();
      case "work" -> driver.work();
      default -> throw new IllegalArgumentException("no such verb: " + words[0]);
    }
    driver.database.close();
  }
}
