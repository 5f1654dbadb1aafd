#include "break_even.h"

#include <algorithm>
#include <cmath>

namespace pith::tools {
std::optional<int> BreakEven::tokens() const {
  const double saved = full_token_s - token_s;
  if (saved <= 0) return std::nullopt;
  return int(std::ceil(extra_s / saved));
}

std::vector<BreakEven> break_evens(const std::vector<BenchResult>& results) {
  std::vector<BreakEven> out;
  for (const BenchResult& result : results) {
    const auto full = std::ranges::find_if(results, [&](const BenchResult& r) {
      return r.ctx == result.ctx && r.threads == result.threads && r.policy == "full";
    });
    if (result.peer || result.policy == "full" || full == results.end()) continue;
    BreakEven even{&result, full->seconds("prefill"), full->token_seconds(),
                   result.token_seconds()};
    for (const char* phase : {"passes", "score", "select", "apply"}) {
      even.extra_s += result.seconds(phase);
    }
    out.push_back(even);
  }
  return out;
}

}  // namespace pith::tools
