#pragma once

#include <cstdint>
#include <vector>

namespace pith {

/// Positions [from, end) whose entries were reduced together: 2^level blocks of a stream.
struct Summary {
  int32_t from = 0, end = 0;
  int level = 0;
};

/// Adds one to a binary counter: what the block from the last summary (where there is none, from
/// `first`) to `end` is to be reduced with. Takes the summaries that it swallows off the list;
/// the caller reduces and puts the result there.
/// Source: merge-reduce, The risk of KV cache compression, arXiv 2607.01520, algorithm 2.
inline Summary carry(std::vector<Summary>& summaries, int32_t first, int32_t end) {
  Summary sum{.from = summaries.empty() ? first : summaries.back().end, .end = end};
  while (!summaries.empty() && summaries.back().level == sum.level) {
    sum.from = summaries.back().from;
    ++sum.level;
    summaries.pop_back();
  }
  return sum;
}

}  // namespace pith
