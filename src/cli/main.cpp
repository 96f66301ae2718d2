#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "cli/commands.h"
#include "cli/run_options.h"
#include "cli/support.h"

namespace drydock::cli {
namespace {

constexpr const char* kExamples = R"text(
Examples:
  drydock run -- python train.py --batch-size 4     run a program on a virtual 910C, then say how it went
  drydock run --profile ascend910b4 --out r1 -- python train.py
  drydock ledger r1                                 the verdict of that run again
  drydock ledger r1 --json                          the same with all numbers, for scripts
  drydock report r1 -o r1.html                      its memory over time, to look at in a browser
  eval "$(drydock env --out r2)"                    for programs that you start yourself
  drydock tune r1                                   the allocator setting that cures it
  drydock plan --fit batch 1..128 -- python train.py --batch 4
  drydock replay r1 --set expandable_segments:True  what that run would have come to
  drydock support aclnnAdd                          what is modelled, refused or absent, and why
)text";

// An empty text is a variable that the caller's script forgot to set, not a wish for the default.
std::string refuse_empty(const std::string& text) {
  return text.empty() ? "the text is empty. Name a value, or leave the option out" : "";
}

// CLI11's own words for a number that is none name a range of 300 digits.
CLI::Validator whole_number(int64_t least) {
  return {[least](const std::string& text) {
            int64_t number = 0;
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
            const bool is_good = error == std::errc() && end == text.data() + text.size() && number >= least &&
                                 number <= std::numeric_limits<int32_t>::max();
            return is_good ? std::string()
                           : "\"" + text + "\" is no whole number from " + std::to_string(least) + " on";
          },
          "", ""};
}

void add_run_options(CLI::App& app, RunOptions& options) {
  app.add_option("--profile", options.profile,
                 "Device to be: ascend910c (default), another built-in profile, or a .toml or .json file of yours");
  app.add_option("--devices", options.devices, "Number of devices, 1 to 16 (default 1)");
  app.add_option("--values", options.values,
                 "What is computed: auto (default: what is small or decides shapes), full, ghost (shapes only)");
  app.add_option("--value-budget", options.value_budget,
                 "Largest output that auto computes, in bytes or as 4MiB (default 1MiB)");
  app.add_option("--threads", options.threads,
                 "Threads that compute operators, 1 to 256 (default: the cores that the process may use)");
  app.add_option("--workspace", options.workspace,
                 "Scratch memory that operators ask for: rules (default: as on hardware, where known), none, upper");
  app.add_option("--check", options.check,
                 "streams: find streams that touch the same memory without a wait between them; none (default)");
  app.add_option("--cann", options.cann, "CANN version to claim (default: the profile's, 9.1.0)");
  app.add_option("--driver", options.driver, "Driver version to claim (default: the one released with that CANN)");
  app.add_flag("--guard", options.guard, "Make host code that touches device memory fault");
  app.add_option("--holders", options.holders,
                 "on (default): torch's objects say what blocks are for (parameters, gradients, ...); or off");
  app.add_option("--record", options.record, "full (default), or null: the same device, nothing recorded");
  app.add_option("--out", options.out, "Run folder, new or empty (default: a new one below ./drydock-runs)");
  for (CLI::Option* option :
       app.get_options([](const CLI::Option* each) { return each->get_items_expected_max() > 0; }))
    option->check(CLI::Validator(refuse_empty, ""));
}

CLI::App* add_export(CLI::App& app, ExportOptions& options) {
  CLI::App* verb = app.add_subcommand("export", "Write a run's memory in a format that other tools open");
  const CLI::Validator not_empty(refuse_empty, "");
  verb->add_option("RUN", options.run, "Run folder, or a .ddtrace file")->required()->check(not_empty);
  verb->add_option(
          "--format", options.format,
          "torch-snapshot (a pickle for torch's _memory_viz.py and its viewer), chrome-trace (JSON for Perfetto), "
          "csv (memory_record.csv and operator_memory.csv, as the Ascend profiler writes them)")
      ->required()
      ->check(CLI::IsMember({"torch-snapshot", "chrome-trace", "csv"}));
  verb->add_option("-o,--output", options.output, "File to write, compressed where it ends in .gz; a folder for csv")
      ->required()
      ->check(not_empty);
  verb->add_option("--process", options.process, "Process to take, by its number (default: the one that recorded most)")
      ->check(whole_number(1));
  verb->add_option("--entries", options.entries,
                   "torch-snapshot: last entries of the history to keep (default 1000000)")
      ->check(whole_number(1));
  verb->add_option("--at", options.at,
                   "torch-snapshot: the state at the program's end (default: before it gives all back), or at its peak")
      ->check(CLI::IsMember({"end", "peak"}));
  verb->footer(
      "Examples:\n"
      "  drydock export r1 --format torch-snapshot -o r1.pickle && python -m torch.cuda._memory_viz trace_plot "
      "r1.pickle\n"
      "  drydock export r1 --format chrome-trace -o r1.json.gz\n"
      "  drydock export r1 --format csv -o r1-tables\n");
  return verb;
}

CLI::App* add_watch(CLI::App& app, WatchOptions& options) {
  CLI::App* verb =
      app.add_subcommand("watch", "Draw the memory curve of a run in the terminal, while it runs or afterwards");
  const CLI::Validator not_empty(refuse_empty, "");
  verb->add_option("RUN", options.run, "Run folder, or a .ddtrace file")->check(not_empty);
  verb->add_flag("--npu-smi", options.npu_smi, "The machine's real devices: what npu-smi info prints, again and again");
  verb->add_option("--file", options.files, "With --npu-smi: recorded outputs instead of the command")
      ->check(not_empty);
  verb->add_option("--interval", options.interval_s, "Seconds between two looks (default 0.5)")
      ->check(CLI::Range(0.01, 3600.0));
  verb->add_flag("--once", options.once, "Show what is known now, and end");
  verb->footer(
      "Filled: allocated. Line above: reserved and workspace. Dots: what the device has. Ctrl-C ends it.\n"
      "Where standard output is no terminal, it prints lines of text.\n\n"
      "Examples:\n"
      "  drydock watch r1\n"
      "  drydock watch --npu-smi --interval 2\n");
  return verb;
}

CLI::App* add_tune(CLI::App& app, TuneOptions& options) {
  CLI::App* verb = app.add_subcommand("tune", "Find the allocator setting that cures a run, and confirm it");
  CLI::Option* run = verb->add_option("RUN", options.run, "Run folder")->check(CLI::Validator(refuse_empty, ""));
  CLI::Option* program =
      verb->add_flag("--program", options.is_program, "Run the command behind -- instead, for each variation")
          ->excludes(run);
  verb->add_option("--vary", options.vary,
                   "NAME=VALUE,VALUE...: values to allow, from the frugal to the wanted; may be repeated")
      ->needs(program)
      ->type_name("NAME=VALUES")
      ->allow_extra_args(false)
      ->take_all();
  verb->add_option("--steps", options.steps, "With --program: optimizer steps of a run (default 0: the whole program)")
      ->needs(program)
      ->check(whole_number(0));
  verb->add_flag("--no-confirm", options.no_confirm, "Do not run the program again under the setting that was found");
  verb->add_option("--rows", options.rows, "Rows of the table, of each variation (default 12; 0 for all)")
      ->check(whole_number(0));
  verb->add_flag("--json", options.json, "All settings that were tried, as JSON");
  CLI::App* how = verb->add_option_group("With --program", "How the program is run");
  add_run_options(*how, options.program);
  how->needs(program);
  verb->footer(
      "Every legal combination of the allocator's keys is tried on what the run asked for. A run that died is known "
      "only\n"
      "up to there, so the setting that would have survived is confirmed by running the program again under it, at "
      "most\n"
      "three times, each search standing on the longest run so far. Its folders and logs are RUN/tune-1, "
      "RUN/tune-2...\n"
      "With --program, the program runs once for each combination of the values that --vary allows (as ghosts, "
      "unless\n"
      "--values says otherwise). A value goes where the command has {NAME}; else behind its option --NAME (one without "
      "a\n"
      "value is a switch, for true and false) or NAME=; else where it has {}, if only one name varies; else into the\n"
      "environment variable NAME. Of what fits, the values that are listed last win.\n"
      "Exit code: 0 if a setting was found (and confirmed), 1 if not, 2 if drydock can't read the run or the program "
      "fails\n"
      "for other reasons in every variation, 130 after Ctrl-C with --program: what is known is printed.\n\n"
      "Examples:\n"
      "  drydock tune r1\n"
      "  drydock tune --program --vary batch=1,2,4 --vary checkpointing=true,false -- \\\n"
      "    python train.py --batch {batch} --gradient_checkpointing {checkpointing}\n");
  return verb;
}

CLI::App* add_plan(CLI::App& app, PlanOptions& options) {
  CLI::App* verb = app.add_subcommand("plan", "Find the largest batch size, length or rank that fits the device");
  verb->add_option("--fit", options.fit, "NAME FIRST..LAST: the number to vary, and its range")
      ->required()
      ->expected(2)
      ->type_name("NAME RANGE");
  verb->add_option("--steps", options.steps,
                   "Optimizer steps that a value must survive (default 5; 0: the whole program)")
      ->check(whole_number(0));
  verb->add_flag("--json", options.json, "As JSON");
  add_run_options(*verb, options.run);
  verb->footer(
      "A value goes where the command has {NAME}; else behind its option --NAME (or NAME=); else where it has {}; else "
      "into\n"
      "the environment variable NAME. The search doubles, guesses and halves, so that values below one that fits are "
      "taken\n"
      "to fit, too; larger ones than the first that does not are tried twice, to see whether that holds. Runs are "
      "ghosts\n"
      "unless --values says otherwise; their folders and logs are kept below --out. Fragmentation may need more steps "
      "to\n"
      "show than the first ones: see --steps.\n"
      "Exit code: 0 if a value fits, 1 if not even the first does, 2 if the program fails for other reasons than "
      "memory\n"
      "or the value changes nothing, 130 after Ctrl-C: what is known is printed.\n\n"
      "Examples:\n"
      "  drydock plan --fit per_device_train_batch_size 1..128 -- python train.py --per_device_train_batch_size 4\n"
      "  drydock plan --fit max_length 512..32768 --json -- python train.py --length {max_length}\n");
  return verb;
}

CLI::App* add_msprof(CLI::App& app, MsprofOptions& options) {
  CLI::App* verb = app.add_subcommand("msprof", "Export what a program's profiler left, as the vendor's msprof does");
  verb->add_option("--output", options.output, "A folder PROF_*, or one that holds some")
      ->required()
      ->check(CLI::Validator(refuse_empty, ""));
  verb->add_option("--export", options.exports, "on: write op_summary, op_statistic, task_time and the timeline")
      ->check(CLI::IsMember({"on", "off"}));
  verb->add_option("--analyze", options.analyze, "on: communication; there is nothing to analyse yet")
      ->check(CLI::IsMember({"on", "off"}));
  verb->footer(
      "torch_npu.profiler calls this by itself (as msprof, which drydock run puts on the PATH). The files are in\n"
      "PROF_*/mindstudio_profiler_output. Of the vendor's command this is all there is: start programs with drydock "
      "run.\n\n"
      "Example:\n  msprof --export=on --output=PROF_000001_20261201093000123_0000000100000001\n");
  return verb;
}

int dispatch(int argc, char** argv) {
  // What stands behind the first -- is the command's own and none of ours.
  RunOptions options;
  std::vector<std::string> own(argv + 1, argv + argc);
  bool has_separator = false;
  for (size_t index = 0; index < own.size(); ++index) {
    if (own[index] != "--") continue;
    options.command.assign(own.begin() + static_cast<long>(index) + 1, own.end());
    own.resize(index);
    has_separator = true;
    break;
  }

  CLI::App app{"A virtual Ascend NPU: runs unmodified torch_npu programs without hardware and keeps a ledger."};
  app.name("drydock");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("drydock ") + DRYDOCK_VERSION);
  app.require_subcommand(1);

  CLI::App* run = app.add_subcommand("run", "Run a command on the virtual device and print a verdict");
  add_run_options(*run, options);
  run->add_option("--check-exit-code", options.check_exit_code,
                  "Exit code where the check found something and the program ended with 0 (default 0: unchanged)")
      ->check(CLI::Range(0, 255));
  run->footer(
      "The command stands behind --. Its exit code is returned; 127 where there is no such command,\n"
      "2 where drydock was asked wrongly. The verdict goes to standard error.\n\n"
      "Example:\n  drydock run --values ghost --out r1 -- python train.py --lr 1e-4\n");
  CLI::App* env = app.add_subcommand("env", "Print shell exports for programs that you start yourself");
  add_run_options(*env, options);
  env->footer("Example:\n  eval \"$(drydock env --out r1)\"; python train.py; drydock ledger r1\n");

  LedgerOptions ledger_options;
  CLI::App* ledger = app.add_subcommand("ledger", "Print the verdict of a run");
  ledger->add_option("RUN", ledger_options.run, "Run folder, or a ledger.sqlite")
      ->required()
      ->check(CLI::Validator(refuse_empty, ""));
  ledger->add_flag("--json", ledger_options.json, "All numbers as JSON (fields: docs/ledger.md)");
  ledger->add_flag("--rebuild", ledger_options.rebuild, "Make the ledger again from the traces");

  ReportOptions report_options;
  CLI::App* report = app.add_subcommand("report", "Write a run's report: one HTML file with the memory over time");
  report->add_option("RUN", report_options.run, "Run folder, or a ledger.sqlite beside its traces")
      ->required()
      ->check(CLI::Validator(refuse_empty, ""));
  report->add_option("-o,--out", report_options.out, "File to write (default report.html)")
      ->check(CLI::Validator(refuse_empty, ""));
  report->add_flag("--rebuild", report_options.rebuild, "Make the ledger again from the traces");

  TraceOptions trace_options;
  CLI::App* trace = app.add_subcommand("trace", "Print the records of a run as text");
  trace->add_option("RUN", trace_options.run, "Run folder, or a .ddtrace file")
      ->required()
      ->check(CLI::Validator(refuse_empty, ""));
  trace->add_flag("--no-times", trace_options.no_times, "Without times, so that two runs compare");

  ReplayOptions replay_options;
  CLI::App* replay =
      app.add_subcommand("replay", "Compare the allocator's model with a run, or try other settings on it");
  replay
      ->add_option("RUN", replay_options.run,
                   "Run folder, a .ddtrace file, or a memory snapshot (.pickle) of PyTorch or torch_npu")
      ->required()
      ->check(CLI::Validator(refuse_empty, ""));
  CLI::Option* replay_settings = replay->add_option(
      "--set", replay_options.settings, "Replay under these settings: KEY:VALUE,... as in PYTORCH_NPU_ALLOC_CONF");
  replay->add_flag("--json", replay_options.json, "As JSON");

  TuneOptions tune_options;
  CLI::App* tune = add_tune(app, tune_options);

  PlanOptions plan_options;
  CLI::App* plan = add_plan(app, plan_options);

  SupportOptions support_options;
  CLI::App* support = app.add_subcommand("support", "What is modelled, refused or absent, and why");
  support->add_option("NAME", support_options.name, "A name, or the beginning of names");
  support->add_option("--wheel", support_options.wheel,
                      "A torch_npu wheel (.whl) or folder: the names it wants and we lack");
  support->add_flag("--json", support_options.json, "As JSON");

  ExportOptions export_options;
  CLI::App* exporter = add_export(app, export_options);

  MsprofOptions msprof_options;
  CLI::App* msprof = add_msprof(app, msprof_options);

  WatchOptions watch_options;
  CLI::App* watch = add_watch(app, watch_options);

  const std::vector<CLI::App*> verbs = app.get_subcommands(std::function<bool(CLI::App*)>());
  for (CLI::App* verb : {ledger, report, trace, replay, support}) verb->footer("");  // not the examples of all verbs
  if (!own.empty() && !own[0].starts_with("-") &&
      std::none_of(verbs.begin(), verbs.end(), [&](const CLI::App* verb) { return verb->get_name() == own[0]; })) {
    std::string names;
    for (const CLI::App* verb : verbs) names += (names.empty() ? "" : ", ") + verb->get_name();
    return refuse("there is no subcommand \"" + own[0] + "\": " + names + ". See drydock --help.");
  }
  std::vector<std::string> reversed(own.rbegin(), own.rend());
  try {
    app.parse(reversed);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::ParseError& error) {
    std::string hint;
    if ((run->parsed() || plan->parsed() || tune_options.is_program) && !has_separator)
      hint = " The command to run stands behind --: drydock run -- COMMAND.";
    return refuse(std::string(error.what()) + "." + hint + " See drydock --help.");
  }
  if (has_separator && !run->parsed() && !plan->parsed() && !tune_options.is_program) {
    return refuse("only run, plan and tune --program take a command behind --. See drydock --help.");
  }
  if (run->parsed()) return run_command(options);
  if (env->parsed()) return env_command(options);
  if (ledger->parsed()) return ledger_command(ledger_options);
  if (report->parsed()) return report_command(report_options);
  if (trace->parsed()) return trace_command(trace_options);
  if (exporter->parsed()) return export_command(export_options);
  if (msprof->parsed()) return msprof_command(msprof_options);
  if (watch->parsed()) return watch_command(watch_options);
  replay_options.has_settings = replay_settings->count() > 0;
  if (replay->parsed()) return replay_command(replay_options);
  plan_options.run.command = options.command;
  if (plan->parsed()) return plan_command(plan_options);
  tune_options.program.command = options.command;
  if (tune->parsed() && tune_options.run.empty() && !tune_options.is_program) {
    return refuse("RUN is required (or --program, with a command behind --). See drydock tune --help.");
  }
  if (tune->parsed()) return tune_command(tune_options);
  return run_support(support_options);
}

}  // namespace
}  // namespace drydock::cli

int main(int argc, char** argv) {
  try {
    return drydock::cli::dispatch(argc, argv);
  } catch (const std::exception& exception) {
    drydock::cli::complain(std::string("something that should not happen: ") + exception.what());
    return drydock::cli::kExitUsage;
  }
}
