#include "bench_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "break_even.h"
#include "eval/metrics.h"
#include "eval/receipt_json.h"
#include "eval/text_table.h"

namespace pith::tools {
namespace {

using Json = nlohmann::ordered_json;

double wall(const PhaseSamples& phase) { return quantile(phase.wall_s, 0.5); }
double fastest(const PhaseSamples& phase) { return quantile(phase.wall_s, 0); }
double slowest(const PhaseSamples& phase) { return quantile(phase.wall_s, 1); }
double cpu(const PhaseSamples& phase) { return quantile(phase.cpu_s, 0.5); }
double speed(const PhaseSamples& phase) { return phase.tokens / wall(phase); }
bool reads_cache(const BenchResult& result, const PhaseSamples& phase) {
  return phase.phase == "decode" && result.decode_bytes > 0;
}

Json split_json(const BenchResult& result, const PhaseSamples& phase) {
  if (phase.phase != "decode" || result.weights_s == 0) return nullptr;
  const double token = wall(phase) / phase.tokens;
  return {{"weights", 1e3 * result.weights_s},
          {"attention", 1e3 * result.attention_s},
          {"rest", 1e3 * (token - result.weights_s - result.attention_s)}};
}

Json phase_json(const BenchReport& report, const BenchResult& result, const PhaseSamples& phase) {
  const bool bytes = reads_cache(result, phase);
  return {{"ctx", result.ctx},
          {"policy", result.policy},
          {"budget", result.budget},
          {"threads", result.threads},
          {"k_type", kKvTypeNames.at(size_t(report.k_type))},
          {"v_type", kKvTypeNames.at(size_t(report.v_type))},
          {"memory_bandwidth", result.bandwidth},
          {"phase", phase.phase},
          {"wall_ms", 1e3 * wall(phase)},
          {"wall_ms_range", {1e3 * fastest(phase), 1e3 * slowest(phase)}},
          {"cpu_ms", 1e3 * cpu(phase)},
          {"tok_s", speed(phase)},
          {"bytes_per_token", bytes ? Json(result.decode_bytes) : Json()},
          {"split_ms", split_json(result, phase)},
          {"peak_rss_bytes", phase.peak_rss},
          {"repeats", phase.wall_s.size()}};
}

std::string phases_table(const BenchReport& report) {
  TextTable table({"ctx", "threads", "policy", "budget", "phase", "wall ms", "from - to", "cpu ms",
                   "tok/s", "MiB/token", "of bandwidth", "weights/attention/rest ms", "peak RSS"},
                  5);
  for (const BenchResult& r : report.results) {
    for (const PhaseSamples& p : r.phases) {
      const bool bytes = reads_cache(r, p);
      const Json split = split_json(r, p);
      auto part = [&](const char* name) { return fixed(split[name].get<double>(), 2); };
      table.add(
          {std::to_string(r.ctx), std::to_string(r.threads), r.policy, r.budget, p.phase,
           fixed(1e3 * wall(p), 1), fixed(1e3 * fastest(p), 1) + " - " + fixed(1e3 * slowest(p), 1),
           fixed(1e3 * cpu(p), 1), fixed(speed(p), 1),
           bytes ? fixed(r.decode_bytes / (1 << 20), 1) : "",
           bytes ? fixed(100 * r.decode_bytes * speed(p) / r.bandwidth, 0) + "%" : "",
           split.is_null() ? ""
                           : part("weights") + " / " + part("attention") + " / " + part("rest"),
           bytes_text(double(p.peak_rss))});
    }
  }
  return table.text();
}

/// How many times faster each case is than each peer at the same context.
std::string ratios_table(const BenchReport& report) {
  TextTable table({"ctx", "threads", "policy", "budget", "against", "prefill", "decode"}, 5);
  bool any = false;
  for (const BenchResult& own : report.results) {
    for (const BenchResult& peer : report.results) {
      const bool comparable = own.ctx == peer.ctx && own.threads == peer.threads;
      if (own.peer || !peer.peer || !comparable) continue;
      any = true;
      auto ratio = [&](const char* phase) {
        return fixed(peer.seconds(phase) / own.seconds(phase), 2) + "x";
      };
      table.add({std::to_string(own.ctx), std::to_string(own.threads), own.policy, own.budget,
                 peer.policy, ratio("prefill"), ratio("decode")});
    }
  }
  return any ? "\nspeed relative to libllama (above 1: faster)\n" + table.text() : std::string();
}

/// When a compressed cache has paid for itself.
std::string break_even_table(const BenchReport& report) {
  const std::string answer = std::to_string(kAnswerTokens);
  TextTable table({"ctx", "threads", "policy", "budget", "costs ms", "saves ms/token",
                   "pays from token", "prompt + " + answer + " tokens s", "full cache s"},
                  5);
  const auto evens = break_evens(report.results);
  for (const BreakEven& e : evens) {
    table.add(
        {std::to_string(e.result->ctx), std::to_string(e.result->threads), e.result->policy,
         e.result->budget, fixed(1e3 * e.extra_s, 1), fixed(1e3 * (e.full_token_s - e.token_s), 2),
         e.tokens() ? std::to_string(*e.tokens()) : "never",
         fixed(e.end_to_end_s(kAnswerTokens), 2), fixed(e.full_end_to_end_s(kAnswerTokens), 2)});
  }
  return evens.empty() ? std::string() : "\nbreak-even against the full cache\n" + table.text();
}

Json break_even_json(const BenchReport& report) {
  Json out = Json::array();
  for (const BreakEven& e : break_evens(report.results)) {
    out.push_back({{"ctx", e.result->ctx},
                   {"threads", e.result->threads},
                   {"policy", e.result->policy},
                   {"budget", e.result->budget},
                   {"extra_ms", 1e3 * e.extra_s},
                   {"saved_ms_per_token", 1e3 * (e.full_token_s - e.token_s)},
                   {"tokens", e.tokens() ? Json(*e.tokens()) : Json()},
                   {"answer_tokens", kAnswerTokens},
                   {"end_to_end_s", e.end_to_end_s(kAnswerTokens)},
                   {"full_end_to_end_s", e.full_end_to_end_s(kAnswerTokens)}});
  }
  return out;
}

}  // namespace

Json to_json(const BenchReport& report) {
  Json results = Json::array(), peers = Json::array();
  for (const BenchResult& result : report.results) {
    for (const PhaseSamples& phase : result.phases) {
      (result.peer ? peers : results).push_back(phase_json(report, result, phase));
    }
  }
  return {{"model", report.model},
          {"command", report.command},
          {"machine", to_json(report.machine)},
          {"results", results},
          {"peers", peers},
          {"break_even", break_even_json(report)}};
}

std::string to_table(const BenchReport& report) {
  std::string out;
  int threads = 0;
  for (const BenchResult& r : report.results) {
    if (r.threads == threads) continue;
    threads = r.threads;
    out += "memory bandwidth with " + std::to_string(threads) +
           (threads == 1 ? " thread: " : " threads: ") + fixed(r.bandwidth / 1e9, 1) + " GB/s\n";
  }
  return out + "\n" + phases_table(report) + break_even_table(report) + ratios_table(report);
}

bool varies_threads(const BenchReport& report) {
  return std::ranges::any_of(report.results, [&](const BenchResult& r) {
    return r.threads != report.results.front().threads;
  });
}

}  // namespace pith::tools
