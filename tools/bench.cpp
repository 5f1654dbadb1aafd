#include <algorithm>
#include <iostream>

#include "base/system.h"
#include "bench_measure.h"
#include "bench_report.h"
#include "calibration.h"
#include "commands.h"
#include "options.h"
#include "progress.h"
#include "report_files.h"
#include "session/session.h"

namespace pith::tools {
namespace {

struct BenchSettings {
  ModelSettings model;
  SessionSettings session;
  CaseSettings cases;
  std::vector<int> contexts{2048};
  std::vector<int> threads{0};
  int decode = 32;
  int repeat = 3;
  std::string peer;
  std::string json, html;
};

void check_context(const Model& model, const SessionOptions& options, const BenchSettings& s) {
  const int n_ctx = options.n_ctx > 0 ? options.n_ctx : model.n_ctx_train();
  const int longest = std::ranges::max(s.contexts) + s.decode;
  if (longest > n_ctx) {
    throw Error(ErrorCode::memory, std::to_string(longest) + " tokens do not fit the context of " +
                                       std::to_string(n_ctx) + "; -c sets a larger one");
  }
  if (longest > model.n_ctx_train()) {
    std::cerr << "note: past the " << model.n_ctx_train()
              << " tokens that the model was trained on: costs are right, answers would not be\n";
  }
}

void bench(const BenchSettings& settings, const std::string& command_line) {
  BenchPlan plan;
  const std::vector<std::string> always{"full"};
  std::vector<std::string> notes;
  plan.cases = make_cases(settings.cases.policies, settings.cases.budgets, always, notes);
  plan.contexts = settings.contexts;
  plan.decode = settings.decode;
  plan.repeat = settings.repeat;
  plan.peers = settings.peer == "llama";
  plan.session = session_options(settings.session);
  for (const int count : settings.threads) {
    plan.threads.push_back(count == 0 ? physical_cores() : count);
  }
  plan.session.threads = std::ranges::max(plan.threads);
  ReportFiles files(settings.json, settings.html);

  const Model model = load_model(settings.model);
  check_context(model, plan.session, settings);
  use_calibration(model, settings.cases.policies, settings.session.no_calibrate, plan.session);
  BenchReport report;
  report.model = model.impl()->weights->path();
  report.command = command_line;
  report.machine = this_machine();
  report.k_type = plan.session.k_type;
  report.v_type = plan.session.v_type;
  const auto write = [&] {
    std::cout << to_table(report);
    files.write(report);
  };
  try {
    ProgressBar bar("measuring");
    run_bench(model, plan, report.results, bar.callback());
  } catch (const Error&) {
    if (!report.results.empty()) write();
    throw;
  }
  write();
}

}  // namespace

void add_bench(CLI::App& tool, const std::string& command_line) {
  auto settings = std::make_shared<BenchSettings>();
  CLI::App& command = add_command(tool, "bench", "Time each phase, beside libllama if wanted",
                                  [settings, command_line] { bench(*settings, command_line); });
  add_model_options(command, settings->model);
  command.add_option("--ctx", settings->contexts, "lengths of the prompt in tokens")
      ->check(CLI::Range(16, 1 << 24))
      ->capture_default_str();
  add_case_options(command, settings->cases);
  command.add_option("--decode", settings->decode, "tokens decoded after it")
      ->check(CLI::Range(1, 1 << 16))
      ->capture_default_str();
  command.add_option("--repeat", settings->repeat, "times everything is run; medians are shown")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      .add_option("--peer", settings->peer,
                  "also run this on the same file, in turn: llama (libllama, with and without "
                  "flash attention)")
      ->check(CLI::IsMember({"llama"}));
  add_session_options(command, settings->session);
  command.remove_option(command.get_option("--threads"));
  command.add_option("-t,--threads", settings->threads, "numbers of threads; 0: physical cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command.add_option("--json", settings->json, "write all figures to this file");
  command.add_option("--html", settings->html, "write them as a page with charts to this file");
}

}  // namespace pith::tools
