// What somebody writes who made a client with openapi-generator for Go: create, find, cancel, read a refusal.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"os"

	client "github.com/GIT_USER_ID/GIT_REPO_ID"
)

func main() {
	configuration := client.NewConfiguration()
	configuration.Servers = client.ServerConfigurations{{URL: os.Getenv("CLIENT_URL")}}
	jobs := client.NewAPIClient(configuration).JobsAPI
	ctx := context.WithValue(context.Background(), client.ContextAccessToken, os.Getenv("CLIENT_KEY"))

	shell := client.NewShellTask("shell")
	shell.SetCommand("date")
	job := client.NewJobBody(os.Getenv("CLIENT_NAME"))
	job.SetTask(client.ShellTaskAsTask(shell))
	job.SetCron("0 3 * * *")

	created, _, err := jobs.CreateJob(ctx).JobBody(*job).Execute()
	check(err)
	listed, _, err := jobs.ListJobs(ctx).Name(job.Name).Execute()
	check(err)
	cancelled, _, err := jobs.CancelJob(ctx, created.JobId).Execute()
	check(err)

	job.SetCron("61 * * * *")
	_, _, err = jobs.CreateJob(ctx).JobBody(*job).Execute()
	var refused *client.GenericOpenAPIError
	if !errors.As(err, &refused) {
		log.Fatalf("a minute 61 was answered with %v", err)
	}
	problem, ok := refused.Model().(client.Problem)
	if !ok {
		log.Fatalf("a refusal is no problem: %s", refused.Body())
	}

	ids := []string{}
	for _, each := range listed {
		ids = append(ids, each.JobId)
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"job_id":    created.JobId,
		"listed":    ids,
		"hour":      listed[0].NextRunAt.Get().UTC().Hour(),
		"cancelled": cancelled.Status,
		"code":      problem.Code,
		"pointer":   problem.GetPointer(),
	}))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
