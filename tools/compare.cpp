#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "calibration.h"
#include "commands.h"
#include "eval/fidelity.h"
#include "eval/html.h"
#include "eval/output_file.h"
#include "eval/receipt_json.h"
#include "eval/report.h"
#include "options.h"
#include "policy/policy.h"
#include "progress.h"
#include "row_input.h"
#include "session/session.h"

namespace pith::tools {
namespace {

constexpr const char* kDefaultBaseline = "snapkv";

struct CompareSettings {
  ModelSettings model;
  SessionSettings session;
  CaseSettings cases;
  RowSettings rows;
  int diverge = 0;
  bool only = false, trial = false;
  std::string baseline;
  std::string json, csv, html;
};

/// The full spec of the baseline: the one asked for, else the usual one where it is in the table.
std::string choose_baseline(CompareSettings& settings) {
  auto& policies = settings.cases.policies;
  const std::string name = settings.baseline.empty() ? kDefaultBaseline : settings.baseline;
  std::string spec = Policy::parse(name).spec();
  const bool present = std::ranges::any_of(
      policies, [&](const std::string& p) { return Policy::parse(p).spec() == spec; });
  if (!present && settings.baseline.empty()) return {};
  if (!present) policies.push_back(spec);
  return spec;
}

/// The files that a comparison is written to.
class Outputs {
 public:
  /// Throws Error(io) where one cannot be created and Error(usage) where two are the same.
  explicit Outputs(const CompareSettings& settings) {
    check_apart("--json", settings.json, "--csv", settings.csv);
    check_apart("--json", settings.json, "--html", settings.html);
    check_apart("--csv", settings.csv, "--html", settings.html);
    if (!settings.json.empty()) json_.emplace(settings.json);
    if (!settings.csv.empty()) csv_.emplace(settings.csv);
    if (!settings.html.empty()) html_.emplace(settings.html);
  }

  void write(const FidelityReport& report) {
    std::cout << to_table(report);
    if (json_) json_->commit(json_text(to_json(report)));
    if (csv_) csv_->commit(to_csv(report));
    if (html_) html_->commit(to_html(report));
  }

 private:
  static void check_apart(const std::string& a, const std::string& path, const std::string& b,
                          const std::string& other) {
    if (path.empty() || path != other) return;
    throw Error(ErrorCode::usage, a + " and " + b + " name the same file");
  }

  std::optional<OutputFile> json_, csv_, html_;
};

/// Fills the report row by row; what is there when an Error stops the run stays.
void evaluate(const Model& model, const FidelityOptions& options, FidelityReport& report) {
  for (const FidelityCase& cell : options.cases) report.results.push_back({cell, {}});
  ProgressBar bar("comparing");
  auto sink = [&](std::span<const RowFidelity> results) {
    for (size_t c = 0; c < results.size(); ++c) report.results[c].rows.push_back(results[c]);
  };
  run_fidelity(model, report.rows, options, sink, bar.callback());
}

void compare(CompareSettings settings, const std::string& command_line) {
  FidelityReport report;
  report.command = command_line;
  report.machine = this_machine();
  report.baseline = choose_baseline(settings);
  const std::span<const std::string> always =
      settings.only ? std::span<const std::string>() : reference_policies();
  FidelityOptions options;
  options.cases = make_cases(settings.cases.policies, settings.cases.budgets, always, report.notes);
  options.session = session_options(settings.session);
  if (unrounded(options.session).k_type != options.session.k_type ||
      unrounded(options.session).v_type != options.session.v_type) {
    report.notes.push_back("everything is measured against the full cache in F16");
  }
  options.diverge = settings.diverge;
  options.trial = settings.trial;
  Outputs outputs(settings);

  const RowSource source(settings.rows);
  const Model model = load_model(settings.model);
  report.model = model.impl()->weights->path();
  report.rows = source.load(model);
  check_lengths(model, options.session, report.rows, options.diverge);
  use_calibration(model, settings.cases.policies, settings.session.no_calibrate, options.session);
  try {
    evaluate(model, options, report);
  } catch (const Error& e) {
    const size_t done = report.results[0].rows.size();
    if (done == 0) throw;
    report.notes.push_back("stopped after " + std::to_string(done) + " of " +
                           std::to_string(report.rows.size()) + " rows: " + e.what());
    outputs.write(report);
    throw;
  }
  outputs.write(report);
}

}  // namespace

void add_compare(CLI::App& tool, const std::string& command_line) {
  auto settings = std::make_shared<CompareSettings>();
  CLI::App& command =
      add_command(tool, "compare", "Measure how far policies change the model's predictions",
                  [settings, command_line] { compare(*settings, command_line); });
  add_model_options(command, settings->model);
  add_row_options(command, settings->rows);
  add_case_options(command, settings->cases);
  command.add_flag("--only", settings->only, "do not add full, random and streaming");
  command.add_option("--baseline", settings->baseline,
                     "policy that ratios refer to; default: snapkv where it is in the table");
  command
      .add_option("--diverge", settings->diverge,
                  "also generate so many tokens greedily and tell where they differ; 0: none")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  command.add_flag("--trial", settings->trial,
                   "also measure what `run --max-kl` goes by: the KL over the context's last 64 "
                   "tokens of a cache compressed before them (trial_kl in --json)");
  add_session_options(command, settings->session);
  add_risk_limit(command, settings->session);
  command.add_option("--json", settings->json, "write all figures to this file");
  command.add_option("--csv", settings->csv, "write the table to this file");
  command.add_option("--html", settings->html, "write a page with charts to this file");
}

}  // namespace pith::tools
