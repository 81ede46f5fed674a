"""GitHub Actions workflow and action files as typed values: text in, values out.

Runs nothing, knows no API and evaluates no expression: values stay templates, and whoever needs one evaluated passes the
renderer in. What a file says wrongly is a `Problem` with a sentence and a line, never an exception.

    document          bounded YAML as GitHub reads it
    shapes, schema    what may stand where, and which contexts an expression sees there
    model             Workflow, Job, Step, Action
    reading, composite, parts   from a document to the model
    matrix            a job's legs
    naming, guessing, step_names   which job, leg and step a shown name stands for
    reuse             the job that runs in a called workflow
"""
