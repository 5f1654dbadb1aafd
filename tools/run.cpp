#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "calibration.h"
#include "commands.h"
#include "eval/machine.h"
#include "eval/receipt_json.h"
#include "generator.h"
#include "interrupt.h"
#include "options.h"
#include "policy/policy.h"
#include "progress.h"
#include "prompt.h"
#include "receipt_text.h"
#include "session/session.h"
#include "session/trial.h"
#include "text_input.h"

namespace pith::tools {
namespace {

struct RunSettings {
  ModelSettings model;
  SessionSettings session;
  SamplerOptions sampler;
  std::string file, question;
  std::string policy, budget = kDefaultBudget;
  std::optional<double> max_kl;              ///< in place of the budget
  GenerationOptions generation{.every = 0};  ///< 0: off
  int limit = 256;
  bool interactive = false, json = false, query_aware = false, no_template = false;
  bool ignore_end = false;
  bool stream = false;  ///< compress while reading
};

/// What reads a prompt that is compressed on the way, unless another is asked for.
constexpr const char* kStreamPolicy = "pith-stream";

std::map<std::string, Pool> pools() {
  std::map<std::string, Pool> out;
  for (size_t i = 0; i < kPoolNames.size(); ++i) out.emplace(kPoolNames[i], Pool(i));
  return out;
}

/// Policies that were not asked for are the defaults of their phase.
void fill_policies(RunSettings& s) {
  if (s.stream && s.generation.every == 0) s.generation.every = GenerationOptions().every;
  if (s.stream) s.generation.policy = kStreamPolicy;
  if (!s.policy.empty()) s.generation.policy = s.policy;
  if (s.policy.empty()) s.policy = kDefaultPolicy;
}

std::vector<std::string> used_policies(const RunSettings& s) {
  std::vector<std::string> out;
  if (!s.stream) out.push_back(s.policy);
  if (s.generation.every > 0) out.push_back(s.generation.policy);
  return out;
}

void check(const RunSettings& s) {
  Policy::parse(s.policy);
  if (s.generation.every > 0) check_generation(Policy::parse(s.generation.policy), s.generation);
  Budget::parse(s.budget);
  if (s.max_kl) check_max_kl(*s.max_kl);
  if (s.file.empty() && s.question.empty() && !s.interactive) {
    throw Error(ErrorCode::usage, "the prompt is empty: give a text (-f), a question (-p) or -i");
  }
  if (s.interactive && s.json) throw Error(ErrorCode::usage, "-i and --json do not go together");
  if (s.interactive && s.file == "-") {
    throw Error(ErrorCode::usage, "-f - and -i both read standard input");
  }
}

/// The next message of a chat; none at the end of the input or after Ctrl-C.
std::optional<std::string> next_message() {
  std::string message;
  while (message.empty()) {
    std::cerr << "> " << std::flush;
    if (!std::getline(std::cin, message) || interrupted()) return std::nullopt;
  }
  return message;
}

/// Reads the part before the cut in a cache that never holds more than its bound.
void read_in_blocks(Session& session, const Prompt& prompt, const RunSettings& settings) {
  session.compress_generated(settings.generation);
  if (prompt.compressed.empty()) return;
  ProgressBar bar("reading " + std::to_string(prompt.compressed.size()) + " tokens in blocks");
  session.prefill(prompt.compressed, {}, bar.callback());
}

/// Throws, before any work, what compressing the prompt would.
void check_size(Session session, const Prompt& prompt, const RunSettings& settings) {
  const auto n_tokens = int64_t(prompt.compressed.size());
  if (settings.max_kl) return check_trial(n_tokens);
  session.impl().check_budget(Policy::parse(settings.policy), Budget::parse(settings.budget),
                              n_tokens);
}

/// Reads the part before the cut and compresses it.
void read_and_compress(Session& session, const Prompt& prompt, const RunSettings& settings) {
  const Policy policy = Policy::parse(settings.policy);
  if (prompt.compressed.empty()) {
    if (policy.keeps_all()) return;
    throw Error(ErrorCode::usage,
                "a prompt of one token leaves nothing to compress; --policy full runs it");
  }
  {
    ProgressBar bar("reading " + std::to_string(prompt.compressed.size()) + " tokens");
    session.prefill(prompt.compressed, policy.needs(), bar.callback());
  }
  ProgressBar bar("compressing");
  if (settings.max_kl) {
    session.compress_within(settings.policy, *settings.max_kl, bar.callback());
  } else {
    session.compress(settings.policy, settings.budget, bar.callback());
  }
}

void show_text(std::string_view text) {
  std::cout << text << std::flush;
  if (!std::cout) throw Error(ErrorCode::io, "writing to standard output failed");
}

void chat(Generator& generator, const Vocab& vocab, const RunSettings& settings) {
  while (const auto message = next_message()) {
    try {
      const auto turn = next_turn(vocab, *message, !settings.no_template);
      const Answer answer = generator.answer(turn, settings.limit);
      show_text("\n");
      if (answer.stop == Stop::interrupted) return;
    } catch (const Error& e) {  // of this message; the chat goes on
      if (e.code() == ErrorCode::io || e.code() == ErrorCode::interrupted) throw;
      std::cerr << "error: " << e.what() << "\n";
    }
  }
}

void print_json(const Answer& answer, const Session& session, const std::string& command_line) {
  const nlohmann::ordered_json out{{"answer", answer.text},
                                   {"stop", stop_name(answer.stop)},
                                   {"model", session.model().impl()->weights->path()},
                                   {"command", command_line},
                                   {"machine", to_json(this_machine())},
                                   {"receipt", to_json(session.receipt())}};
  show_text(json_text(out));
}

void run(RunSettings settings, const std::string& command_line) {
  fill_policies(settings);
  check(settings);
  PromptParts parts;
  parts.chat_template = !settings.no_template;
  parts.query_aware = settings.query_aware;
  if (!settings.file.empty()) parts.file = read_text(settings.file);
  const Model model = load_model(settings.model);
  const Vocab& vocab = *model.impl()->vocab;
  if (settings.question.empty() && settings.interactive) {
    const auto message = next_message();
    if (!message) return;
    settings.question = *message;
  }
  parts.question = settings.question;
  const Prompt prompt = make_prompt(vocab, parts);
  SessionOptions options = session_options(settings.session);
  const Sampler refuses_bad_options(vocab, settings.sampler);
  if (!settings.stream) check_size(Session(model, options), prompt, settings);
  use_calibration(model, used_policies(settings), settings.session.no_calibrate, options);
  Session session(model, options);
  if (settings.stream) {
    read_in_blocks(session, prompt, settings);
  } else {
    read_and_compress(session, prompt, settings);
    if (settings.generation.every > 0) session.compress_generated(settings.generation);
  }

  Generator generator(session, settings.sampler, settings.ignore_end, [&](std::string_view text) {
    if (!settings.json) show_text(text);
  });
  const Answer answer = generator.answer(prompt.rest, settings.limit);
  if (settings.json) {
    print_json(answer, session, command_line);
  } else {
    show_text("\n");
    std::cerr << "\n" << receipt_text(session.receipt());
    if (answer.stop == Stop::context_full) std::cerr << "  the context is full (-c)\n";
  }
  if (settings.interactive && answer.stop != Stop::interrupted) {
    chat(generator, vocab, settings);
    std::cerr << "\n" << receipt_text(session.receipt());
  }
  if (interrupted()) throw Error(ErrorCode::interrupted, "interrupted");
}

void add_sampler_options(CLI::App& command, SamplerOptions& sampler) {
  command.add_option("--temp", sampler.temperature, "temperature; 0: greedy")
      ->capture_default_str();
  command.add_option("--top-k", sampler.top_k, "0: off")->capture_default_str();
  command.add_option("--top-p", sampler.top_p, "1: off")->capture_default_str();
  command.add_option("--min-p", sampler.min_p, "0: off")->capture_default_str();
  command.add_option("--repeat-penalty", sampler.repeat_penalty, "1: off")->capture_default_str();
  command.add_option("-s,--seed", sampler.seed, "seed of the sampler")->capture_default_str();
  command.add_option("--grammar", sampler.grammar, "GBNF that the answer must follow");
}

}  // namespace

void add_run(CLI::App& tool, const std::string& command_line) {
  auto settings = std::make_shared<RunSettings>();
  CLI::App& command =
      add_command(tool, "run", "Answer a question about a text over its compressed cache",
                  [settings, command_line] { run(*settings, command_line); });
  add_model_options(command, settings->model);
  command.add_option("-f,--file", settings->file, "the text that is compressed; -: standard input");
  command.add_option("-p,--prompt", settings->question,
                     "the question after it; without -f, the whole prompt");
  command.add_option("--policy", settings->policy, "see `pith policies`")
      ->default_str(kDefaultPolicy);
  CLI::Option* budget =
      command
          .add_option("--budget", settings->budget,
                      "what stays: 10%, 512 (mean entries a layer and KV head) or 64MiB")
          ->capture_default_str();
  command
      .add_option("--max-kl", settings->max_kl,
                  "in place of a budget: the smallest that moves the predictions of the prompt's "
                  "last 64 tokens by no more than this mean KL in nats, measured")
      ->excludes(budget);
  command
      .add_option("--every", settings->generation.every,
                  "compress what is generated too, each time so many tokens have come; off unless "
                  "given, needs a policy that works in generation (default " +
                      settings->generation.policy + ")")
      ->check(CLI::Range(1, 1 << 20));
  command
      .add_option("--generated", settings->generation.kept,
                  "with --every or --stream: most entries kept of what is bounded, on average a "
                  "layer and KV head")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command
      .add_option("--pool", settings->generation.pool,
                  "with --every or --stream, what competes: all that stayed (rolling), or only "
                  "summaries of as many blocks as what they are merged with (counter)")
      ->transform(CLI::CheckedTransformer(pools()))
      ->default_str(std::string(kPoolNames.front()));
  CLI::Option* stream = command.add_flag(
      "--stream", settings->stream,
      std::string("compress while the prompt is read, in blocks of --every tokens: at "
                  "most --generated entries of everything stay, whatever its length "
                  "(default policy ") +
          kStreamPolicy + ")");
  stream->excludes(command.get_option("--budget"), command.get_option("--max-kl"));
  command.add_option("-n,--predict", settings->limit, "most tokens of an answer; -1: no limit")
      ->check(CLI::Range(-1, 1 << 24))
      ->capture_default_str();
  command.add_flag("-i,--interactive", settings->interactive,
                   "go on as a chat over the compressed cache");
  command.add_flag("--ignore-eos", settings->ignore_end,
                   "go on past the model's end token, up to -n tokens");
  command.add_flag("--json", settings->json, "print answer and receipt as JSON");
  command.add_flag("--query-aware", settings->query_aware, "compress the question with the text");
  command.add_flag("--no-template", settings->no_template, "do not use the chat template");
  add_sampler_options(command, settings->sampler);
  add_session_options(command, settings->session);
  add_risk_limit(command, settings->session);
}

}  // namespace pith::tools
