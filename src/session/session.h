#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/kv_cache.h"
#include "engine/engine.h"
#include "model/vocab.h"
#include "model/weights.h"
#include "pith/pith.hpp"
#include "pith/risk.hpp"
#include "policy/policy.h"
#include "session/future_sample.h"
#include "session/summary.h"

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

/// Compression of what follows position `from` (0: of everything); it was last looked at when
/// position `checked` was the next.
struct Generating {
  Policy policy;
  GenerationOptions options;
  int32_t from = 0, checked = 0;
  std::vector<Summary> summaries = {};  ///< of Pool::counter, in the order of their positions
  int summary_kept = 0;                 ///< entries a head of each, on average
};

struct Round;

/// Bytes of one entry as budgets count them: key, value, position and, where the policy gives one,
/// log-weight.
size_t counted_entry_bytes(const CacheGeometry& geometry, bool weighed = false);

/// Throws what Session::compress_generated does.
void check_generation(const Policy& policy, const GenerationOptions& options);

/// Greedy tokens after what was read. Fewer than asked where the model ended or the context did.
struct Lookahead {
  int asked = 0;
  Observation seen;
};

/// first, first + 1, ..: so many.
std::vector<int32_t> indices(int32_t first, size_t count);

/// Tells `progress` the share done. Throws Error(interrupted) where it says to stop.
void report_share(const Progress& progress, double share);

/// Progress of a part that goes from `from` to `to` of the whole.
Progress part_of(const Progress& whole, double from, double to);

/// What a policy sees of a session, and what that refers to; valid while the session stays as it
/// is.
struct PolicyInput {
  std::unique_ptr<const CacheView> cache;
  std::unique_ptr<const Observation> tail;
  PolicyContext context;
};

/// What a Session holds and does.
class SessionImpl {
 public:
  SessionImpl(const Model& model, const SessionOptions& options);

  void prefill(std::span<const int32_t> text, const Needs& need, const Progress& progress);
  /// Runs the passes beyond the prompt that policies `need`, unless what the last ones showed still
  /// holds. The cache is as before.
  void run_passes(const Needs& need, const Progress& progress);
  /// Throws what compress() would for a budget that a prompt of n_tokens cannot meet.
  void check_budget(const Policy& policy, const Budget& budget, int64_t n_tokens) const;
  Receipt compress(const Policy& policy, const Budget& budget, const Progress& progress);
  /// As compress(), but all positions before `from` and the newest `window` entries of each head
  /// stay, and the budget is one of the others alone.
  Receipt compress_after(int32_t from, int window, const Policy& policy, const Budget& budget,
                         const Progress& progress);
  /// See Session::compress_within.
  Receipt compress_within(const Policy& policy, double max_kl, const Progress& progress);
  void compress_generated(const GenerationOptions& options);
  /// Entries that a budget keeps of the cache as it is, and those that stay in compress_after();
  /// `weighed`: each has a log-weight.
  int64_t kept_by(const Budget& budget, bool weighed) const;
  int64_t kept_by(const Budget& budget, bool weighed, int32_t from, int window) const;
  /// What compress() shows the policy. Throws Error(usage) where it reads what prefill did not
  /// observe; run_passes() has to have been called for what it needs.
  PolicyInput input_of(const Policy& policy, int64_t keep_total, const Protection& protection,
                       const Progress& progress) const;
  /// See measure_risk().
  Risk risk(const RiskOptions& asked, const Progress& progress);
  std::span<const float> decode(int32_t token);
  /// See pith::decode_together().
  static std::vector<float> decode_together(std::span<SessionImpl* const> sessions,
                                            std::span<const int32_t> tokens);
  std::vector<float> evaluate(std::span<const int32_t> text);
  std::unique_ptr<SessionImpl> fork() const;
  void trim(int32_t position);
  Receipt receipt() const;
  /// Bytes of the observations beyond the tail that scoring reads.
  size_t held_for(const Needs& need) const;
  /// Throws Error(memory) where `bytes` for `what` are not free.
  void check_memory(size_t bytes, const std::string& what) const;

  Model model;
  SessionOptions options;
  std::shared_ptr<Engine> engine;
  KvCache cache;
  std::vector<int32_t> tokens;  ///< all that were read, by position
  Observation seen;             ///< of the tail of what prefill has read
  /// Queries of what prefill has read, where they were asked for; forks share it.
  std::shared_ptr<Observation> prompt = std::make_shared<Observation>();
  /// Queries that stand for those to come, likewise.
  std::shared_ptr<FutureSample> future = std::make_shared<FutureSample>();
  /// What the repeat pass showed of the cache as it is; null where it was not run.
  std::shared_ptr<const std::vector<Observation>> repeated;
  /// What the model says next, likewise; the first tokens of more serve for fewer.
  std::shared_ptr<const Lookahead> ahead;
  std::vector<float> logits;  ///< after the last token run by decode
  Receipt done;               ///< of the last compression, with the running times
  bool compressed = false;    ///< done describes the cache as compress() left it
  std::optional<Generating> generating;

 private:
  SessionImpl(const SessionImpl& other);
  void check_fits(size_t n_tokens) const;
  void prefill_compressing(std::span<const int32_t> text, const Progress& progress);
  void read(std::span<const int32_t> part, size_t observe_from, bool all_queries,
            const std::vector<int32_t>& sampled);
  void repeat(const Progress& progress);
  std::vector<int32_t> repeat_request(size_t from) const;
  std::vector<Observation> repeat_all(size_t most, const Progress& progress);
  Observation run_aside(std::span<const int32_t> part, const Progress& progress);
  std::vector<Observation> run_texts(const std::vector<std::vector<int32_t>>& texts,
                                     const Progress& progress);
  void look_ahead(int count, const Progress& progress);
  Observation greedy(int count, const Progress& progress);
  void take_own(Observation& pass) const;
  bool passes_hold(const Needs& need) const;
  void forget_passes();
  Observation& own_prompt();
  FutureSample& own_future();
  void note_tokens(std::span<const int32_t> read_tokens);
  void check_observed(const Needs& need, const std::string& reader) const;
  PolicyInput input_for(const Needs& need, const std::string& reader, int64_t keep_total,
                        const Protection& protection, const Progress& progress) const;
  void check_tail(const std::string& reader) const;
  void check_room_for(const std::string& pass, int64_t least) const;
  Receipt compress_to(const Policy& policy, int64_t keep_total, const Protection& protection,
                      const Progress& progress, Receipt next);
  MaxKlReceipt search_budget(const Policy& policy, double max_kl, std::vector<std::string>& notes,
                             const Progress& progress) const;
  Receipt begin_receipt(const Policy& policy, const Budget& budget) const;
  Plan plan(const Policy& policy, int64_t keep_total, const Protection& protection,
            const Progress& progress, Receipt& record) const;
  void keep_risky_whole(Plan& plan, Receipt& record) const;
  Plan plan_at(const Policy& policy, const Budget& budget, const Progress& progress,
               std::vector<std::string>& notes) const;
  size_t rows_to_observe(size_t n_tokens) const;
  void run_observed(std::span<const int32_t> part, std::span<const int32_t> logit_rows);
  void note_observed(std::span<const int32_t> part, size_t rows);
  void compress_if_due();
  void reduce(const Round& round, int64_t keep);
  int64_t entries_before(int32_t position) const;
  void describe_cache(Receipt& receipt) const;
  void describe_whole(Receipt& receipt) const;
};

}  // namespace pith
