// What somebody writes who made a client with openapi-generator for Java: create, find, cancel, read a refusal.

import java.time.ZoneOffset;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.JSON;
import org.openapitools.client.api.JobsApi;
import org.openapitools.client.model.JobBody;
import org.openapitools.client.model.JobCreated;
import org.openapitools.client.model.JobView;
import org.openapitools.client.model.Problem;
import org.openapitools.client.model.ShellTask;
import org.openapitools.client.model.Task;

public class Main {
    public static void main(String[] arguments) throws Exception {
        ApiClient client = new ApiClient();
        client.setBasePath(System.getenv("CLIENT_URL"));
        client.setBearerToken(System.getenv("CLIENT_KEY"));
        JobsApi jobs = new JobsApi(client);

        String name = System.getenv("CLIENT_NAME");
        Task task = new Task(new ShellTask().kind(ShellTask.KindEnum.SHELL).command("date"));
        JobCreated created = jobs.createJob(new JobBody().name(name).cron("0 3 * * *").task(task), null);
        List<JobView> listed = jobs.listJobs(name, null, null, null, null, null, null, null, null, null, null);
        JobView cancelled = jobs.cancelJob(created.getJobId(), null, null);
        Problem problem = refusal(jobs, new JobBody().name(name).cron("61 * * * *").task(task));

        Map<String, Object> told = new LinkedHashMap<>();
        told.put("job_id", created.getJobId());
        told.put("listed", listed.stream().map(JobView::getJobId).toList());
        told.put("hour", listed.get(0).getNextRunAt().withOffsetSameInstant(ZoneOffset.UTC).getHour());
        told.put("cancelled", cancelled.getStatus());
        told.put("code", problem.getCode());
        told.put("pointer", problem.getPointer());
        System.out.println(JSON.serialize(told));
    }

    private static Problem refusal(JobsApi jobs, JobBody job) throws Exception {
        try {
            jobs.createJob(job, null);
        } catch (ApiException refused) {
            return Problem.fromJson(refused.getResponseBody());
        }
        throw new AssertionError("a minute 61 was accepted");
    }
}
