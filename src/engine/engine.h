#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "model/weights.h"
#include "pith/pith.hpp"

namespace pith {

struct EngineOptions {
  int threads = 1;
  int n_ubatch = 512;
  AttentionPath attention = AttentionPath::ragged;
};

/// What is added to the attention of one layer, query heads side by side, before W_O.
struct HeadShift {
  int layer = 0;
  std::span<const float> values;  ///< [tokens, n_head * head_dim]
};

/// Tokens of a step whose positions and queries are appended to an observation.
struct QueryRows {
  Observation& out;
  std::span<const int32_t> rows;  ///< indices into the step's tokens, ascending
};

/// One pass of the model over some tokens.
struct Step {
  std::span<const int32_t> tokens;  ///< at most max_tokens(), at cache.next_position()..
  std::span<const int32_t> logit_rows =
      {};  ///< indices into tokens, ascending: whose logits to return
  std::span<const int32_t> observe_rows =
      {};  ///< indices into tokens, ascending: whose queries and state to keep
  const HeadShift* shift = nullptr;
};

/// A token of one of several sequences, at its cache's next_position().
struct Lane {
  KvCache* cache = nullptr;
  int32_t token = 0;
  Observation* seen = nullptr;  ///< what its queries and state are appended to; null: nothing
};

/// Runs the model's graphs on the CPU backend. Threads and memory persist; the graphs of decode and
/// of a full ubatch are built once and reused. Used from one thread at a time.
class Engine {
 public:
  Engine(std::shared_ptr<const ModelWeights> weights, const EngineOptions& options);
  ~Engine();

  /// Runs the tokens over `cache`, appends their entries, and writes logits [logit_rows, n_vocab]
  /// into `logits` (resized). What observe_rows ask for is appended to `seen`, and queries alone to
  /// each of `queries`. When it throws, the cache is as before.
  void run(KvCache& cache, const Step& step, std::vector<float>& logits, Observation* seen,
           std::span<const QueryRows> queries = {});

  /// Runs a token over each of several caches and writes logits [lanes, n_vocab]. On the ragged
  /// path in passes of up to n_ubatch lanes, each of which reads the weights once for all, and what
  /// its caches have in common too; elsewhere one after the other. When it throws for what it was
  /// given, the caches are as before. The same cache twice: Error(internal).
  void run_together(std::span<const Lane> lanes, std::vector<float>& logits);

  /// Most tokens one step may take over this cache.
  int max_tokens(const KvCache& cache) const;

  const ModelWeights& weights() const;
  const EngineOptions& options() const;
  std::string backend() const;
  /// Seconds spent in attention by all run() so far; 0 on the portable path, which cannot tell.
  double attention_seconds() const;
  /// Seconds spent taking observations out of the graphs by all run() so far.
  double observe_seconds() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace pith
