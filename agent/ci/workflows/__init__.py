"""GitHub Actions workflow and action files as typed values: text in, values out.

Runs nothing, knows no API and evaluates no expression: values stay templates, and callers that need one evaluated pass in a
function. A mistake in a file is a `WorkflowProblem` with a sentence and a line, never an exception.

    document              bounded YAML as GitHub reads it
    shapes, schema        which values each key allows, and which contexts expressions see there
    model                 Workflow, Job, WorkflowStep, Action
    workflow_file         from a document to the model
    matrix                a job's legs
    naming, shown_names   the job, leg and step that a displayed name stands for
    reuse                 the job that runs in a called workflow
"""
