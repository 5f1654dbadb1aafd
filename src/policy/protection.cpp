#include "policy/protection.h"

#include <algorithm>
#include <string>

namespace pith {

namespace {

constexpr int64_t kMostWindow = 32;
constexpr int64_t kMostSinks = 4;

/// The default, or what the other part leaves of `kept` where that is less; at least 1.
int fitting(int64_t wanted, int64_t kept, int64_t other) {
  return int(std::max<int64_t>(1, std::min(wanted, kept - other)));
}

}  // namespace

Protection fit_protection(int64_t keep_total, int rows, Protection asked) {
  const int64_t kept = keep_total / rows;
  if (kept < 1) {
    throw Error(ErrorCode::budget, "the budget keeps " + std::to_string(keep_total) +
                                       " entries for " + std::to_string(rows) +
                                       " heads, and every head keeps at least one: ask for " +
                                       std::to_string(rows) + " or more");
  }
  const bool free_choice = asked.sinks < 0 && asked.window < 0;
  if (free_choice && kept == 1) return {.sinks = 0, .window = 1};
  Protection fit = asked;
  if (fit.window < 0) fit.window = fitting(std::min(kMostWindow, kept / 3), kept, asked.sinks);
  if (fit.sinks < 0) fit.sinks = fitting(std::min(kMostSinks, kept / 8), kept, asked.window);
  const int64_t needed = int64_t{fit.sinks} + fit.window;
  if (needed > kept) {
    throw Error(ErrorCode::budget,
                std::to_string(fit.sinks) + " sinks and a window of " + std::to_string(fit.window) +
                    " do not fit " + std::to_string(kept) +
                    " kept entries a head: protect at most " + std::to_string(kept) +
                    " or keep at least " + std::to_string(needed));
  }
  return fit;
}

Eligible eligible_entries(const PolicyContext& context, int row) {
  const Protection& protection = context.protection;
  const int n_head_kv = context.cache.shape().n_head_kv;
  const auto positions = context.cache.positions(row / n_head_kv, row % n_head_kv);
  const auto length = int(positions.size());
  const auto prompt = std::ranges::lower_bound(positions, protection.prompt) - positions.begin();
  const int first = std::max(std::min(length, protection.sinks), int(prompt));
  return {.first = first, .last = std::max(first, length - protection.window)};
}

RowLimits row_limits(const PolicyContext& context) {
  const ModelShape& shape = context.cache.shape();
  RowLimits limits;
  for (int row = 0; row < shape.n_rows(); ++row) {
    const int length = context.cache.length(row / shape.n_head_kv, row % shape.n_head_kv);
    const int guarded = length - eligible_entries(context, row).count();
    limits.least.push_back(std::max(guarded, std::min(1, length)));
    limits.most.push_back(length);
    limits.least_total += limits.least.back();
    limits.most_total += length;
  }
  return limits;
}

int64_t kept_entries(const RowLimits& limits, int64_t keep_total) {
  if (keep_total >= limits.most_total) return limits.most_total;
  if (keep_total < limits.least_total) {
    throw Error(ErrorCode::budget,
                "the budget keeps " + std::to_string(keep_total) + " entries, but " +
                    std::to_string(limits.least_total) +
                    " are protected: ask for a larger budget, or for fewer sinks "
                    "and a smaller window");
  }
  return keep_total;
}

}  // namespace pith
