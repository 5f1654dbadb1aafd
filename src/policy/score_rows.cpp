#include "policy/score_rows.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "base/aligned.h"
#include "base/parallel.h"

namespace pith {

namespace {

size_t most_row_bytes(const ModelShape& shape, const std::function<size_t(int, int)>& row_bytes) {
  size_t most = 1;
  for (int row = 0; row < shape.n_rows(); ++row) {
    most = std::max(most, row_bytes(row / shape.n_head_kv, row % shape.n_head_kv));
  }
  return most;
}

/// Threads that may score at once.
int affordable_threads(const PolicyContext& context, size_t bytes) {
  if (bytes > context.scratch_bytes) {
    throw Error(ErrorCode::memory, "scoring one head needs " + std::to_string(bytes) +
                                       " bytes of scratch, the limit is " +
                                       std::to_string(context.scratch_bytes));
  }
  const auto most = size_t(std::clamp(context.threads, 1, context.cache.shape().n_rows()));
  return int(std::min(most, context.scratch_bytes / bytes));
}

}  // namespace

void report_progress(const PolicyContext& context, double share) {
  if (context.progress && !context.progress(share)) {
    throw Error(ErrorCode::interrupted, "stopped while scoring cache entries");
  }
}

PolicyContext pass_of(const PolicyContext& context, double from, double to) {
  PolicyContext pass = context;
  if (context.progress) {
    pass.progress = [progress = context.progress, from, to](double share) {
      return progress(from + (to - from) * share);
    };
  }
  return pass;
}

size_t each_row(const PolicyContext& context, const std::function<size_t(int, int)>& row_bytes,
                const std::function<void(int, int)>& body) {
  const ModelShape& shape = context.cache.shape();
  const size_t bytes = most_row_bytes(shape, row_bytes);
  const int threads = affordable_threads(context, bytes);
  report_progress(context, 0);
  const ReusedBlocks reused;
  std::atomic<int> done{0};
  parallel_for(shape.n_rows(), threads, [&, caller = std::this_thread::get_id()](int row) {
    body(row / shape.n_head_kv, row % shape.n_head_kv);
    const int finished = ++done;
    if (std::this_thread::get_id() == caller)
      report_progress(context, double(finished) / shape.n_rows());
  });
  report_progress(context, 1);
  return bytes * size_t(threads);
}

Scores score_each_row(const PolicyContext& context,
                      const std::function<size_t(int, int)>& row_bytes,
                      const std::function<void(const ScoredRow&)>& score_row) {
  const ModelShape& shape = context.cache.shape();
  Scores scores;
  scores.rows.resize(size_t(shape.n_rows()));
  scores.scratch_peak = each_row(context, row_bytes, [&](int layer, int head_kv) {
    auto& out = scores.rows[size_t(shape.row(layer, head_kv))];
    out.resize(size_t(context.cache.length(layer, head_kv)));
    score_row({.layer = layer, .head_kv = head_kv, .scores = out});
  });
  return scores;
}

}  // namespace pith
