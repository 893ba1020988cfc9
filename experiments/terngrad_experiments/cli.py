"""The command line of terngrad_experiment."""

import argparse
import pathlib
import shlex
import sys

from terngrad_experiments import (cluster_model, commits, importing, jobs, labels, measurements, model_tables, programs, readme,
                                  recipes, report, runner, status, store, table_text, tables, views)

USAGE = """terngrad_experiment: runs tables and figures of Wen et al. (NIPS 2017), keeps what came out, and compares it.
Exit codes: 0; 1 something failed; 2 wrong usage; 128 + signal."""


class UsageError(Exception):
    """Wrong usage, in one line."""


def parse_seeds(text):
    """Parses a list of seeds, "1-3" or "1,4"."""
    seeds = []
    for part in text.split(","):
        first, is_range, last = part.partition("-")
        if not first.isdecimal() or (is_range and not last.isdecimal()):
            raise argparse.ArgumentTypeError(f"'{text}': expected seeds such as 1-3 or 1,4")
        own = range(int(first), int(last or first) + 1)
        if not own or any(seed in seeds for seed in own):
            raise argparse.ArgumentTypeError(f"'{text}': expected seeds in rising ranges, none of them twice")
        seeds.extend(own)
    return seeds


def default_data(home):
    """Default data folder: data/ of the checkout (scripts/download_data.sh), or of the working directory if installed."""
    return home.parent / "data" if (home.parent / "scripts").is_dir() else pathlib.Path("data")


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}': expected 1 and above")
    return int(text)


def auto_or_positive(text):
    return text if text == "auto" else positive(text)


def add_folders(parser, script, home, is_command=False):
    """Adds the options common to all commands. They have defaults before the command, but not after it (`is_command`), so that
    an option that is missing there does not override one before the command."""
    title = None if is_command else "before or after COMMAND; of an option given twice the later one counts"
    group = parser.add_argument_group("folders", title)

    def add(name, default, text):
        shown = f"{text} (default: {default})".replace("%", "%%")
        group.add_argument(name, metavar="DIR", type=pathlib.Path, help=shown,
                           default=argparse.SUPPRESS if is_command else default)

    add("--out", pathlib.Path("experiments-out"), "runs and new results")
    add("--recipes", home / "recipes", "recipes (*.toml)")
    add("--results", home / "results", "recorded results (*.jsonl), beside those of --out")
    add("--programs", programs.default_folder(script), "terngrad_train and the other commands")
    add("--data", default_data(home), "data sets, each in a folder of its own")


def add_same_commit(command):
    command.add_argument("--same_commit", nargs="?", const="", metavar="COMMIT",
                         help="leaves out results of other commits than COMMIT (...-dirty of a build of changed files), by "
                              "default that of the run that was recorded last; must follow NAME")


def make_parser(script, home):
    parser = argparse.ArgumentParser(prog="terngrad_experiment", description=USAGE,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_folders(parser, script, home)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name, text, function):
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(function=function)
        add_folders(command, script, home, is_command=True)
        return command

    listing = add("list", "cells, what each costs, and what is recorded", list_cells)
    listing.add_argument("pattern", nargs="?", default="*")
    run = add("run", "runs cells, and what was interrupted of them; without PATTERN lists the presets", run_cells)
    run.add_argument("pattern", nargs="*", help="a cell, a glob (table1/*, table1/*@original-scaler), or a preset")
    run.add_argument("--seeds", type=parse_seeds, help="in place of the recipe's, e.g. 1-3")
    run.add_argument("--scale", help="a fraction of the steps, e.g. 1/30; not comparable with the paper")
    run.add_argument("--jobs", type=auto_or_positive,
                     help="runs at a time; auto, the default: processors / threads, with --device cuda as many as GPUs take")
    run.add_argument("--jobs_per_gpu", type=positive,
                     help="runs at a time on one GPU, 1 by default; more are for small nets, whose start is long beside their steps")
    run.add_argument("--threads", type=positive, help="of each run, 1 by default; results do not depend on it")
    run.add_argument("--device", choices=("cpu", "cuda"), help="cpu by default")
    run.add_argument("--dry_run", action="store_true", help="prints the command line of each run")
    states = add("status", "what runs, its step, and what failed and why", show_status)
    states.add_argument("pattern", nargs="?", default="*")
    for name, text, function, formats in (("table", "a table beside the paper's", show_table, ("text", "markdown", "csv", "json")),
                                          ("plot", "a figure", draw_plot, ("svg", "png"))):
        command = add(name, text, function)
        command.add_argument("name", help="of a recipe, e.g. table1")
        command.add_argument("--format", default=formats[0], choices=formats)
        command.add_argument("-o", "--output", type=pathlib.Path)
        add_same_commit(command)
    page = add("report", "one HTML page of everything that is recorded", write_report)
    page.add_argument("name", nargs="*", help="recipes; all by default")
    page.add_argument("-o", "--output", type=pathlib.Path, default="report.html")
    add_same_commit(page)
    load = add("import", "records runs that were made by hand, if their options are a cell's", import_runs)
    load.add_argument("run_dir", nargs="+", type=pathlib.Path)
    load.add_argument("--unfinished", action="store_true", help="also runs that have not come to their last step")
    load.add_argument("--into", type=pathlib.Path, help="results file; that of --out by default")
    front = add("readme", "the README's table of results and its figure, from the records", update_readme)
    front.add_argument("--check", action="store_true", help="writes nothing; exit code 1 if they differ from the records")
    cluster = add("cluster", "predicts steps on a cluster that a file describes (experiments/clusters)", show_cluster)
    cluster.add_argument("file", type=pathlib.Path)
    cluster.add_argument("--format", default="text", choices=("text", "json"))
    cluster.add_argument("-o", "--output", type=pathlib.Path)
    add("check", "recipes against the options of the built commands", check_recipes)
    return parser


def load_recipes(options):
    return recipes.load_all(options.recipes)


def recorded(options):
    """Results of --results and of --out, the latter later."""
    return store.read_all([*sorted(options.results.glob("*.jsonl")), options.out / "results.jsonl"])


def of_commit(options, results):
    """(results, LeftOut) with --same_commit, else (results, None)."""
    return (results, None) if options.same_commit is None else commits.of_one(results, options.same_commit)


def selected(options, experiments, patterns, scale=None):
    """Cells of patterns and presets, each once.

    @throws UsageError for a pattern that matches nothing"""
    presets = recipes.load_presets(options.recipes)
    cells = {}
    for pattern in patterns:
        parts = presets[pattern] if pattern in presets else [pattern]
        for part in parts:
            found = recipes.match(experiments, part)
            if not found:
                raise UsageError(f"'{part}' matches no cell; terngrad_experiment list shows them")
            for cell in found:
                cell = recipes.scaled(cell, scale) if scale else cell
                cells[cell.full_name] = cell
    return list(cells.values())


def list_cells(options):
    experiments = load_recipes(options)
    results = recorded(options)
    print(f"{'cell':44} {'seeds':>5} {'steps':>8} {'hours a run':>11}  recorded")
    for cell in selected(options, experiments, [options.pattern]):
        print(status.list_line(cell, results))
    return 0


def run_cells(options):
    experiments = load_recipes(options)
    if not options.pattern:
        for name, patterns in recipes.load_presets(options.recipes).items():
            print(f"{name}: {' '.join(patterns)}")
        return 0
    num_threads, device = 1 if options.threads is None else options.threads, options.device or "cpu"
    if options.jobs_per_gpu and device != "cuda":
        raise UsageError(f"--jobs_per_gpu {options.jobs_per_gpu}: needs --device cuda")
    cells = selected(options, experiments, options.pattern, options.scale)
    missing = sorted({need for cell in cells for need in cell.needs})
    runnable = [cell for cell in cells if not cell.needs]
    if missing:
        print(f"{len(cells) - len(runnable)} cells are left out: they need {', '.join(missing)}", file=sys.stderr)
    measured = [cell for cell in runnable if cell.command]
    for name in ("seeds", "threads", "device", "jobs") if measured and len(measured) == len(runnable) else ():
        if getattr(options, name):
            raise UsageError(f"--{name}: the cells have commands of their own, which run as they are")
    wanted = [jobs.make_job(cell, seed, options.out) for cell in runnable for seed in options.seeds or cell.seeds
              if cell not in measured]
    if options.dry_run:
        for cell in measured:
            print(cell.command)
        for job in wanted:
            data = jobs.expected_data_folder(options.data, job.cell.options["dataset"])
            print(shlex.join(["terngrad_train", *jobs.arguments(job, data, num_threads, device)]))
        return 0
    out = runner.OutFolder(options.out)
    try:
        for cell in measured:
            result = measurements.measure(cell, programs.Programs(options.programs))
            store.append(out.results, result)
            print(f"{cell.full_name}: {result['ratios']['uplink']:.2f}x up, {result['ratios']['downlink']:.2f}x down", flush=True)
        is_auto = options.jobs in (None, "auto")
        jobs_per_gpu = options.jobs_per_gpu or 1
        num_jobs = runner.default_num_jobs(num_threads, device, jobs_per_gpu) if is_auto else options.jobs
        return runner.Runner(programs.Programs(options.programs), options.data, out, num_jobs, num_threads, device,
                             lambda text: print(text, flush=True), jobs_per_gpu).run(wanted)
    finally:
        out.close()


def show_status(options):
    experiments = load_recipes(options)
    results = recorded(options)
    status.show(selected(options, experiments, [options.pattern]), options.out, results)
    return 0


def emit(options, content):
    if options.output is None:
        print(content)
    else:
        options.output.write_text(content + "\n", encoding="utf-8")


def experiment_named(experiments, name):
    if name not in experiments:
        raise UsageError(f"'{name}': no such recipe; there are {', '.join(sorted(experiments))}")
    return experiments[name]


def show_table(options):
    experiments = load_recipes(options)
    experiment = experiment_named(experiments, options.name)
    results, left_out = of_commit(options, views.results_for([experiment], recorded(options)))
    if experiment.kind == "claims":
        if options.format in ("csv", "json"):
            raise UsageError(f"--format {options.format}: {experiment.name} has text and markdown only")
        emit(options, table_text.render_claims(experiment, results, options.format, left_out))
        return 0
    if experiment.kind == "model":
        emit(options, model_tables.render(experiment, options.format))
        return 0
    table = tables.make_table(experiment, results, left_out, labels.Labels(options.data), experiments)
    emit(options, table_text.render(table, options.format))
    if options.format == "csv":
        say_left_out(left_out)
    return 0


def say_left_out(left_out):
    """Prints the note on results of other commits, for outputs that cannot contain it."""
    if left_out is not None:
        print(f"terngrad_experiment: {left_out}", file=sys.stderr)


def draw_plot(options):
    experiment = experiment_named(load_recipes(options), options.name)
    results, left_out = of_commit(options, views.results_for([experiment], recorded(options)))
    say_left_out(left_out)
    return report.draw(experiment, results, options)


def in_order_of_the_paper(experiments):
    """Experiments in order: tables of the paper, its figures, then others."""
    return sorted(experiments, key=lambda name: (not name.startswith("table"), not name.startswith("fig"),
                                                 not experiments[name].source))


def write_report(options):
    experiments = load_recipes(options)
    named = [experiment_named(experiments, name) for name in options.name or in_order_of_the_paper(experiments)]
    known = recorded(options)
    if not options.name:
        # Omit experiments that are not from the paper and have no results.
        named = [experiment for experiment in named if experiment.source or views.results_for([experiment], known)]
    results, left_out = of_commit(options, views.results_for(named, known))
    page = report.make_page(named, results, left_out, labels.Labels(options.data), experiments)
    options.output.write_text(page, encoding="utf-8")
    print(f"{options.output}: {len(page.encode()) / 1e6:.2f} MB")
    return 0


def show_cluster(options):
    cluster = cluster_model.read_cluster(options.file)
    emit(options, {"text": cluster_model.to_text, "json": cluster_model.to_json}[options.format](cluster))
    return 0


def import_runs(options):
    into = options.into or options.out / "results.jsonl"
    return importing.import_runs(load_recipes(options), options.run_dir, into, options.unfinished)


def update_readme(options):
    root = options.recipes.resolve().parent.parent
    stale = readme.update(root, options.check)
    for path in stale:
        print(f"{path.relative_to(root)}: {'differs from the records' if options.check else 'written'}")
    return 1 if stale and options.check else 0


def check_recipes(options):
    experiments = load_recipes(options)
    known = programs.Programs(options.programs).options()
    wrong = [f"{cell.full_name}: --{name} is no option of terngrad_train"
             for experiment in experiments.values() for cell in experiment.all_cells() for name in cell.options
             if name not in known]
    for experiment in experiments.values():
        if experiment.model is not None:
            model_tables.clusters_of(experiment)
    for line in wrong:
        print(f"terngrad_experiment: {line}", file=sys.stderr)
    if not wrong:
        print(f"{sum(len(experiment.cells) for experiment in experiments.values())} cells of {len(experiments)} recipes are sound")
    return 1 if wrong else 0


def main(script, home, arguments=None):
    """@param home  folder of recipes and recorded results"""
    options = make_parser(script, pathlib.Path(home)).parse_args(arguments)
    try:
        return options.function(options)
    except (UsageError, recipes.RecipeError, jobs.DataMissing, commits.CommitError) as error:
        print(f"terngrad_experiment: {error}", file=sys.stderr)
        return 2
    except ImportError as missing:
        print(f"terngrad_experiment: skipped: {missing}; tables need scipy, figures matplotlib (scripts/install_deps.sh --plot)", file=sys.stderr)
        return 77
    except (runner.RunnerError, programs.ProgramError, store.StoreError, report.ReportError, OSError) as error:
        print(f"terngrad_experiment: {error}", file=sys.stderr)
        return 1
