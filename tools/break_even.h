#pragma once

#include <optional>
#include <vector>

#include "bench_measure.h"

namespace pith::tools {

/// What a policy costs once and saves on every token, against the full cache of the same context
/// and number of threads.
struct BreakEven {
  const BenchResult* result = nullptr;
  double prefill_s = 0, full_token_s = 0, token_s = 0;
  double extra_s = 0;  ///< passes, scoring, selection and removal

  /// From how many generated tokens on compression has paid; none: never, a token is no faster.
  std::optional<int> tokens() const;
  /// Seconds from an empty cache to the last of `count` generated tokens.
  double end_to_end_s(int count) const { return prefill_s + extra_s + count * token_s; }
  double full_end_to_end_s(int count) const { return prefill_s + count * full_token_s; }
};

/// One for each case that evicts, medians over repeats. Needs the `full` case of its context and
/// number of threads.
std::vector<BreakEven> break_evens(const std::vector<BenchResult>& results);

}  // namespace pith::tools
