#include "break_even.h"

#include <algorithm>
#include <cmath>

#include "eval/metrics.h"

namespace pith::tools {
namespace {

/// Median seconds of a phase; 0 where the case has none.
double seconds_of(const BenchResult& result, const char* phase) {
  const auto at = std::ranges::find(result.phases, phase, &PhaseSamples::phase);
  return at == result.phases.end() ? 0 : quantile(at->wall_s, 0.5);
}

double token_seconds(const BenchResult& result) {
  const auto at = std::ranges::find(result.phases, "decode", &PhaseSamples::phase);
  return quantile(at->wall_s, 0.5) / at->tokens;
}

}  // namespace

std::optional<int> BreakEven::tokens() const {
  const double saved = full_token_s - token_s;
  if (saved <= 0) return std::nullopt;
  return int(std::ceil(extra_s / saved));
}

std::vector<BreakEven> break_evens(const std::vector<BenchResult>& results) {
  std::vector<BreakEven> out;
  for (const BenchResult& result : results) {
    const auto full = std::ranges::find_if(
        results, [&](const BenchResult& r) { return r.ctx == result.ctx && r.policy == "full"; });
    if (result.peer || result.policy == "full" || full == results.end()) continue;
    BreakEven even{&result, seconds_of(*full, "prefill"), token_seconds(*full),
                   token_seconds(result)};
    for (const char* phase : {"passes", "score", "select", "apply"}) {
      even.extra_s += seconds_of(result, phase);
    }
    out.push_back(even);
  }
  return out;
}

}  // namespace pith::tools
