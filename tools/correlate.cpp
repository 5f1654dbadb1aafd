#include <iostream>

#include "calibration.h"
#include "commands.h"
#include "eval/correlate_report.h"
#include "options.h"
#include "progress.h"
#include "report_files.h"
#include "row_input.h"
#include "session/session.h"

namespace pith::tools {
namespace {

struct CorrelateSettings {
  ModelSettings model;
  SessionSettings session;
  RowSettings rows{.continuation = CorrelateOptions().positions};
  std::vector<std::string> policies{"behavior"};
  CorrelateOptions options;
  std::string json, html;
};

/// Prints and writes what there is.
void write(CorrelateReport& report, ReportFiles& files) {
  if (!report.results.empty()) {
    report.summaries =
        summarize(report.results, rater_names(report.options), int(report.options.budgets.size()));
  }
  std::cout << to_table(report);
  files.write(report);
}

/// Fills the report row by row; what is there when an Error stops the run stays.
void evaluate(const Model& model, CorrelateReport& report) {
  ProgressBar bar("correlating");
  auto sink = [&](RowCorrelation&& row) { report.results.push_back(std::move(row)); };
  run_correlate(model, report.rows, report.options, sink, bar.callback());
}

void correlate(CorrelateSettings settings, const std::string& command_line) {
  for (const std::string& budget : settings.options.budgets) Budget::parse(budget);
  CorrelateReport report;
  report.command = command_line;
  report.machine = this_machine();
  report.options = settings.options;
  report.options.session = session_options(settings.session);
  report.options.positions = settings.rows.continuation;
  report.options.policies = rated_policies(settings.policies, report.notes);
  ReportFiles files(settings.json, settings.html);

  const RowSource source(settings.rows);
  const Model model = load_model(settings.model);
  report.model = model.impl()->weights->path();
  report.rows = source.load(model);
  check_lengths(model, report.options.session, report.rows);
  SessionOptions& session = report.options.session;
  use_calibration(model, settings.policies, settings.session.no_calibrate, session);
  report.notes.insert(report.notes.end(), session.notes.begin(), session.notes.end());
  try {
    evaluate(model, report);
  } catch (const Error& e) {
    if (report.results.empty()) throw;
    report.notes.push_back("stopped after " + std::to_string(report.results.size()) + " of " +
                           std::to_string(report.rows.size()) + " rows: " + e.what());
    write(report, files);
    throw;
  }
  write(report, files);
}

}  // namespace

void add_correlate(CLI::App& tool, const std::string& command_line) {
  auto settings = std::make_shared<CorrelateSettings>();
  CLI::App& command =
      add_command(tool, "correlate", "Measure how well policies foresee what evictions do",
                  [settings, command_line] { correlate(*settings, command_line); });
  CorrelateOptions& options = settings->options;
  add_model_options(command, settings->model);
  add_row_options(command, settings->rows);
  command.get_option("--continue")
      ->description("tokens of a text that are predicted; of a row the first scored positions");
  command.add_option("--policy", settings->policies, "policies, see `pith policies`")
      ->capture_default_str();
  command.add_option("--masks", options.masks, "sets of evictions drawn for each row")
      ->check(CLI::Range(20, 100000))
      ->capture_default_str();
  command.add_option("--budget", options.budgets, "what the masks keep, in turn")
      ->capture_default_str();
  command.add_flag("--own", options.own,
                   "predict along what the full cache would say, not along the row's continuation");
  command
      .add_option("--yardstick", options.yardstick,
                  "also measure the KL at so many last prompt positions; 0: none")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command.add_option("--seed", options.seed, "another seed draws other masks")
      ->capture_default_str();
  add_session_options(command, settings->session);
  command.add_option("--json", settings->json, "write all figures to this file");
  command.add_option("--html", settings->html, "write a page with charts to this file");
}

}  // namespace pith::tools
