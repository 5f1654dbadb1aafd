#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/engine.h"
#include "model/vocab.h"
#include "model/weights.h"
#include "pith/pith.hpp"
#include "policy/policy.h"

namespace pith {

/// What a Model holds: weights on the backend, the vocabulary, and the view that policies get.
class ModelImpl {
 public:
  ModelImpl(const std::string& path, const ModelOptions& options);

  std::shared_ptr<const ModelWeights> weights;
  std::unique_ptr<const Vocab> vocab;
  std::unique_ptr<const WeightsView> view;
  double load_s = 0;
};

/// What a Session holds and does.
class SessionImpl {
 public:
  SessionImpl(const Model& model, const SessionOptions& options);

  void prefill(std::span<const int32_t> tokens, int observe, const Progress& progress);
  /// Throws what compress() would for a budget that a prompt of n_tokens cannot meet.
  void check_budget(const Policy& policy, const Budget& budget, int64_t n_tokens) const;
  Receipt compress(const Policy& policy, const Budget& budget, const Progress& progress);
  std::span<const float> decode(int32_t token);
  std::vector<float> evaluate(std::span<const int32_t> tokens);
  std::unique_ptr<SessionImpl> fork() const;
  void trim(int32_t position);
  Receipt receipt() const;

  Model model;
  SessionOptions options;
  std::shared_ptr<Engine> engine;
  KvCache cache;
  Observation seen;           ///< of the tail of what prefill has read
  std::vector<float> logits;  ///< after the last token run by decode
  Receipt done;               ///< of the last compression, with the running times
  bool compressed = false;    ///< done describes the cache as compress() left it

 private:
  SessionImpl(const SessionImpl& other);
  void check_fits(size_t n_tokens) const;
  void read(std::span<const int32_t> tokens, size_t observe_from);
  void check_observed(const Policy& policy) const;
  Plan plan(const Policy& policy, int64_t keep_total, const Progress& progress,
            Receipt& record) const;
  void describe_cache(Receipt& receipt) const;
};

}  // namespace pith
