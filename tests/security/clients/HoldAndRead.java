import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Holds a queue with a reason, then reads it, by a client that nobody configured: it asks for an upgrade to HTTP/2. */
public class HoldAndRead {
    public static void main(String[] arguments) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        String queue = arguments[0] + "/api/v1/queues/default";
        HttpRequest.Builder hold = HttpRequest.newBuilder(URI.create(queue + "/hold"))
            .header("Authorization", "Bearer " + arguments[1])
            .header("Content-Type", "application/json")
            .POST(HttpRequest.BodyPublishers.ofString("{\"reason\":\"from Java\"}"));
        print(client.send(hold.build(), HttpResponse.BodyHandlers.ofString()));
        HttpRequest read = HttpRequest.newBuilder(URI.create(queue))
            .header("Authorization", "Bearer " + arguments[1]).build();
        print(client.send(read, HttpResponse.BodyHandlers.ofString()));
    }

    private static void print(HttpResponse<String> answer) {
        System.out.println(answer.statusCode() + " " + answer.body());
    }
}
