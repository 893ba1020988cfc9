"""Status of runs: recorded, running, failed."""

from terngrad_experiments import jobs, run_folder, runner, table_text, tables


def last_results(cell, results):
    """The last result of each seed, on any device."""
    return tables.last_of_seeds(result for result in results if (result["cell"], result["scale"]) == (cell.base_name, cell.scale))


def list_line(cell, results):
    if "max_steps" not in cell.options:
        is_measured = any((result["cell"], result["status"]) == (cell.base_name, "measured") for result in results)
        state = "no runs of its own" if cell.command is None else "measured" if is_measured else "-"
        return f"{cell.full_name:44} {'-':>5} {'-':>8} {'-':>11}  {state}"
    seconds = jobs.make_job(cell, 1, ".").seconds()
    hours = "-" if seconds is None or cell.needs else f"{seconds / 3600:.2f}"
    seeds = [result["seed"] for result in last_results(cell, results) if result["status"] == "done"]
    state = f"seeds {table_text.seeds_text(seeds)}" if seeds else "-"
    if cell.needs:
        state = "needs " + ", ".join(cell.needs)
    return f"{cell.full_name:44} {table_text.seeds_text(cell.seeds):>5} {int(cell.options['max_steps']):>8,} {hours:>11}  {state}"


def job_line(job, results):
    lock = jobs.RunLock(job)
    is_running = not lock.acquire()
    if not is_running:
        lock.release()
    metrics = run_folder.read_metrics(job.folder)
    done = run_folder.steps_done(metrics)
    if is_running:
        speed = next((line["examples_per_second"] for line in reversed(metrics) if line.get("examples_per_second")), None)
        left = "" if not speed else f", {(job.max_steps - done) * int(job.cell.options['batch_size']) / speed / 60:.0f} min left"
        return f"running: step {done:,} of {job.max_steps:,}{left}"
    if any(result["status"] == "failed" and result["seed"] == job.seed for result in last_results(job.cell, results)):
        return f"failed: {runner.last_line(job.log)}"
    return f"interrupted at step {done:,} of {job.max_steps:,}" if done < job.max_steps else "finished"


def show(cells, out, results):
    """Prints a line for each run with a folder."""
    for cell in cells:
        for seed in cell.seeds:
            if "max_steps" not in cell.options:
                continue
            job = jobs.make_job(cell, seed, out)
            if job.folder.exists():
                print(f"{job.name:52} {job_line(job, results)}")
