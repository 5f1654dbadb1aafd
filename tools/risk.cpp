#include "pith/risk.hpp"

#include <algorithm>
#include <iostream>

#include "calibration.h"
#include "commands.h"
#include "eval/risk_report.h"
#include "options.h"
#include "policy/policy.h"
#include "progress.h"
#include "report_files.h"
#include "session/session.h"
#include "text_input.h"

namespace pith::tools {
namespace {

struct RiskSettings {
  ModelSettings model;
  SessionSettings session;
  std::string file;
  std::string queries;  ///< empty: future, or file where there are texts
  std::vector<std::string> queries_from;
  RiskOptions options{.policy = kDefaultPolicy, .budgets = {kDefaultBudget}};
  std::string json, html;
};

RiskQueries queries_of(const RiskSettings& settings) {
  const bool texts = !settings.queries_from.empty();
  if (settings.queries.empty()) return texts ? RiskQueries::file : RiskOptions().queries;
  const auto found = std::ranges::find(kRiskQueriesNames, settings.queries);
  const auto queries = RiskQueries(found - kRiskQueriesNames.begin());
  if ((queries == RiskQueries::file) != texts) {
    throw Error(ErrorCode::usage, "--queries file and --queries-from go together");
  }
  return queries;
}

/// Throws for words that are off, before a model is loaded.
void check(const RiskSettings& settings) {
  if (settings.file.empty()) throw Error(ErrorCode::usage, "risk is measured of a text (-f)");
  if (Policy::parse(settings.options.policy).keeps_all()) {
    throw Error(ErrorCode::usage, settings.options.policy + " evicts nothing and risks nothing");
  }
  for (const std::string& budget : settings.options.budgets) Budget::parse(budget);
}

void risk(RiskSettings settings, const std::string& command_line) {
  check(settings);
  RiskOptions& asked = settings.options;
  asked.queries = queries_of(settings);
  const std::string text = read_text(settings.file);
  std::vector<std::string> asking;
  asking.reserve(settings.queries_from.size());
  for (const std::string& path : settings.queries_from) asking.push_back(read_text(path));
  ReportFiles files(settings.json, settings.html);

  const Model model = load_model(settings.model);
  const Vocab& vocab = *model.impl()->vocab;
  asked.texts.reserve(asking.size());
  for (const std::string& words : asking) {
    asked.texts.push_back(vocab.tokenize(words, false, false));
  }
  SessionOptions options = session_options(settings.session);
  use_calibration(model, {&asked.policy, 1}, settings.session.no_calibrate, options);
  Session session(model, options);
  const std::vector<int32_t> tokens = vocab.tokenize(text, true, false);
  for (const std::string& budget : asked.budgets) {
    session.impl().check_budget(Policy::parse(asked.policy), Budget::parse(budget),
                                int64_t(tokens.size()));
  }
  {
    ProgressBar bar("reading " + std::to_string(tokens.size()) + " tokens");
    session.prefill(tokens, needs_of(asked), bar.callback());
  }
  ProgressBar bar("measuring");
  const RiskReport report{.model = model.impl()->weights->path(),
                          .command = command_line,
                          .machine = this_machine(),
                          .text = settings.file,
                          .n_tokens = int64_t(tokens.size()),
                          .risk = measure_risk(session, asked, bar.callback())};
  std::cout << to_table(report);
  files.write(report);
}

}  // namespace

void add_risk(CLI::App& tool, const std::string& command_line) {
  auto settings = std::make_shared<RiskSettings>();
  CLI::App& command =
      add_command(tool, "risk", "Tell how well each head can be compressed, and what a plan risks",
                  [settings, command_line] { risk(*settings, command_line); });
  RiskOptions& options = settings->options;
  add_model_options(command, settings->model);
  command.add_option("-f,--file", settings->file, "the text; -: standard input");
  command
      .add_option(
          "--queries", settings->queries,
          "queries that count: of the prompt's end (tail), of the prompt turned behind it "
          "(future), of a pass that repeats it (repeat), of texts after it (file); default: "
          "future, or file with --queries-from")
      ->check(CLI::IsMember(
          std::vector<std::string>(kRiskQueriesNames.begin(), kRiskQueriesNames.end())));
  command.add_option("--queries-from", settings->queries_from, "texts that ask");
  command.add_option("--policy", options.policy, "whose plans are judged, see `pith policies`")
      ->capture_default_str();
  command
      .add_option("--budget", options.budgets,
                  "what stays: 10%, 512 (mean entries a layer and KV head) or 64MiB")
      ->capture_default_str();
  command
      .add_option("--eigenvalues", options.eigenvalues,
                  "leading ones of each head in the JSON file")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command
      .add_option(
          "--buckets", options.buckets,
          "heads of more than this many times head size + 1 entries are sketched; more takes "
          "longer")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  add_session_options(command, settings->session);
  command.add_option("--json", settings->json, "write all figures to this file");
  command.add_option("--html", settings->html, "write a page with maps to this file");
}

}  // namespace pith::tools
