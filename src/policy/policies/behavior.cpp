#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <sstream>

#include "base/parallel.h"
#include "behavior/paths.h"
#include "policy/policies/behavior_inputs.h"
#include "policy/policies/policies.h"
#include "policy/protection.h"
#include "policy/score_rows.h"

namespace pith {

namespace {

using behavior::Candidate;
using behavior::GroupFeatures;
using behavior::Mask;
using behavior::Objective;
using Order = std::vector<behavior::Step<float>>;

/// Halvings of eps before an entry counts as one that cannot go; the last eps of the default is
/// 5e-5, well above the rounding of retained mass in F32.
constexpr int kMaxHalvings = 10;

struct BehaviorOptions {
  int positions, topk, rank;
  Objective objective;
  double eps, pool, step;
};

/// What may be evicted of each (layer, KV head).
std::vector<Candidate> candidates(const PolicyContext& context, int row, int group) {
  const Eligible eligible = eligible_entries(context, row);
  std::vector<Candidate> out;
  for (int i = eligible.first; i < eligible.last; ++i) out.push_back({group, i});
  return out;
}

/// Appends what `order` leaves of `all`, by what each would add to it.
void append_rest(const Mask<float>& mask, const std::vector<Candidate>& all, int threads,
                 Order& order) {
  const auto rest = behavior::not_among(all, order);
  for (auto& step : behavior::cheapest(mask, rest, int(rest.size()), threads)) {
    step.halvings = kMaxHalvings + 1;
    order.push_back(step);
  }
}

int64_t evictions(const PolicyContext& context) {
  const RowLimits limits = row_limits(context);
  return limits.most_total - kept_entries(limits, context.keep_total);
}

/// How eps had to be lowered for the evictions that the budget asks, if it had to.
void note_eps(const std::vector<Order>& orders, int64_t wanted, double eps, Scores& scores) {
  std::vector<int64_t> at(size_t(kMaxHalvings) + 2, 0);
  for (const Order& order : orders) {
    for (const auto& step : order) ++at[size_t(step.halvings)];
  }
  int halvings = 0;
  for (int64_t sum = at[0]; sum < wanted && halvings <= kMaxHalvings; sum += at[size_t(halvings)]) {
    ++halvings;
  }
  if (halvings == 0) return;
  std::ostringstream note;
  if (halvings <= kMaxHalvings) {
    note << "behavior: eps lowered from " << eps << " to " << std::ldexp(eps, -halvings)
         << " to meet the budget";
  } else {
    note << "behavior: the budget takes entries that no eps down to "
         << std::ldexp(eps, -kMaxHalvings) << " lets go";
  }
  scores.notes.push_back(note.str());
}

class BehaviorScorer : public Scorer {
 public:
  explicit BehaviorScorer(const BehaviorOptions& options) : options_(options) {}

  Needs needs() const override { return {.tail = options_.positions}; }

  Scores score(const PolicyContext& context) const override {
    const BehaviorInputs inputs = inputs_of(context);
    return options_.objective == Objective::head ? score_paths(context, inputs)
                                                 : score_whole(context, inputs);
  }

  /// The objective itself.
  std::vector<double> mask_costs(std::span<const Plan> masks, const Scores& /*scores*/,
                                 const PolicyContext& context) const override {
    return inputs_of(context).mask_costs(masks);
  }

 private:
  BehaviorInputs inputs_of(const PolicyContext& context) const {
    if (context.seen.positions.empty()) {
      throw Error(ErrorCode::usage,
                  "behavior needs observed positions: observe part of the prompt");
    }
    const int topk = std::min(options_.topk, context.cache.shape().n_vocab);
    return {context, options_.objective, options_.positions, topk, options_.rank};
  }

  behavior::GreedyOptions greedy_options() const {
    return {.eps = options_.eps, .max_halvings = kMaxHalvings, .share = options_.step};
  }

  /// Groups do not depend on each other: one eviction path each, merged by their scores.
  Scores score_paths(const PolicyContext& context, const BehaviorInputs& inputs) const {
    const ModelShape& shape = context.cache.shape();
    std::vector<Order> orders(size_t(shape.n_rows()));
    const auto bytes = [&](int layer, int head_kv) {
      return inputs.feature_bytes(layer, head_kv) + inputs.transient_bytes(layer, head_kv);
    };
    PolicyContext rest = context;  // of the scratch
    rest.scratch_bytes -= inputs.shared_bytes();
    Scores scores = score_each_row(rest, bytes, [&](const ScoredRow& row) {
      const int index = shape.row(row.layer, row.head_kv);
      const auto all = candidates(context, index, 0);
      if (all.empty()) return;
      GroupFeatures<float> features;
      inputs.make_features(row.layer, row.head_kv, features);
      Mask<float> mask({&features, 1}, options_.objective);
      Order& order = orders[size_t(index)];
      order = behavior::evict_with_recheck(mask, all, greedy_options());
      append_rest(mask, all, 1, order);
      for (auto& step : order) step.evicted.group = index;
    });
    scores.scratch_peak += inputs.shared_bytes();
    write_scores(context, orders, scores);
    return scores;
  }

  /// Groups share one cost: all features at once, one order that ends at the budget.
  Scores score_whole(const PolicyContext& context, const BehaviorInputs& inputs) const {
    const ModelShape& shape = context.cache.shape();
    Scores scores;
    scores.scratch_peak = whole_bytes(context, inputs);
    report_progress(context, 0);
    std::vector<GroupFeatures<float>> features(size_t(shape.n_rows()));
    std::vector<Candidate> all;
    for (int row = 0; row < shape.n_rows(); ++row) {
      scores.rows.emplace_back(
          size_t(context.cache.length(row / shape.n_head_kv, row % shape.n_head_kv)));
      const auto mine = candidates(context, row, row);
      all.insert(all.end(), mine.begin(), mine.end());
    }
    parallel_for(shape.n_rows(), context.threads, [&](int row) {
      inputs.make_features(row / shape.n_head_kv, row % shape.n_head_kv, features[size_t(row)]);
    });
    report_progress(context, 0.5);

    Mask<float> mask(features, options_.objective, inputs.probabilities());
    behavior::GreedyOptions greedy = greedy_options();
    greedy.evictions = int(evictions(context));
    greedy.threads = context.threads;
    const int pool_size = int(std::ceil(options_.pool * greedy.evictions));
    std::vector<Candidate> pool;
    for (const auto& step : behavior::cheapest(mask, all, pool_size, context.threads)) {
      pool.push_back(step.evicted);
    }
    Order order = behavior::evict_with_recheck(mask, pool, greedy);
    behavior::exchange(mask, pool, order, greedy);
    append_rest(mask, all, context.threads, order);
    write_scores(context, {order}, scores);
    report_progress(context, 1);
    return scores;
  }

  size_t whole_bytes(const PolicyContext& context, const BehaviorInputs& inputs) const {
    const ModelShape& shape = context.cache.shape();
    size_t features = 0, transient = 0;
    for (int row = 0; row < shape.n_rows(); ++row) {
      const int layer = row / shape.n_head_kv, head_kv = row % shape.n_head_kv;
      features += inputs.feature_bytes(layer, head_kv);
      transient = std::max(transient, inputs.transient_bytes(layer, head_kv));
    }
    const size_t bytes =
        inputs.shared_bytes() + features + transient * size_t(std::max(1, context.threads));
    if (bytes > context.scratch_bytes) {
      throw Error(ErrorCode::memory,
                  "behavior: this objective holds the features of all heads at once, " +
                      std::to_string(bytes) + " bytes of scratch, and the limit is " +
                      std::to_string(context.scratch_bytes) +
                      ": raise it, or use objective=head, which holds one head's a thread");
    }
    return bytes;
  }

  void write_scores(const PolicyContext& context, const std::vector<Order>& orders,
                    Scores& scores) const {
    const auto worth = behavior::path_scores(orders);
    for (size_t order = 0; order < orders.size(); ++order) {
      for (size_t i = 0; i < orders[order].size(); ++i) {
        const Candidate& entry = orders[order][i].evicted;
        scores.rows[size_t(entry.group)][size_t(entry.entry)] = worth[order][i];
      }
    }
    note_eps(orders, evictions(context), options_.eps, scores);
  }

  BehaviorOptions options_;
};

Objective objective_of(const std::string& name) {
  if (name == "total") return Objective::total;
  if (name == "layer") return Objective::layer;
  return name == "kl" ? Objective::kl : Objective::head;
}

Knob count_knob(const std::string& name, const std::string& value, double max,
                const std::string& help) {
  return {.name = name,
          .value = value,
          .min = 1,
          .max = max,
          .integer = true,
          .choices = {},
          .help = help};
}

Knob real_knob(const std::string& name, const std::string& value, double min, double max,
               const std::string& help) {
  return {.name = name, .value = value, .min = min, .max = max, .choices = {}, .help = help};
}

std::unique_ptr<Scorer> make_behavior(const KnobValues& knobs) {
  return std::make_unique<BehaviorScorer>(
      BehaviorOptions{.positions = knobs.integer("positions"),
                      .topk = knobs.integer("topk"),
                      .rank = knobs.integer("rank"),
                      .objective = objective_of(knobs.choice("objective")),
                      .eps = knobs.number("eps"),
                      .pool = knobs.number("pool"),
                      .step = knobs.number("step")});
}

}  // namespace

ScoreRow behavior_row() {
  return {.name = "behavior",
          .summary = "entries whose loss would move the next-token distribution most",
          .paper = "Behavior-Preserving KV Cache Compression, arXiv 2610.06479",
          .formula =
              "greedy on the mean over scoring positions of 1/2 |F dx|^2 ~ KL, dx the deletion "
              "counterfactual W_O (M o - sum alpha v) / (1 - M), F the top-k logit metric after "
              "the final norm; score = running maximum of the rises when the entry went",
          .differences =
              "re-checks in rounds instead of one eviction at a time, and an exchange behind them "
              "where heads share a cost; F cut to `rank` directions, "
              "which "
              "leaves room for more scoring positions at the same cost; reads the tail alone, the "
              "one source with states and logits; "
              "objective=head sums costs over query heads, which makes the heads independent; the "
              "paper's objective is total",
          .budget = "global",
          .knobs = {count_knob("positions", "64", 64,
                               "last positions whose predictions count; all where fewer were seen"),
                    count_knob(
                        "topk", "64", 1 << 20,
                        "likeliest tokens whose logits count; all where the vocabulary has fewer"),
                    count_knob("rank", "4", 64, "directions of the quadratic form that are kept"),
                    {.name = "objective",
                     .value = "head",
                     .choices = {"head", "layer", "total", "kl"},
                     .help = "how shares of query heads join: summed costs a head or layer, cost "
                             "of the total, or its log-sum-exp KL"},
                    real_knob("eps", "0.05", 1e-3, 0.5,
                              "attention mass that stays at every head and position"),
                    real_knob("pool", "1.5", 1, 1000,
                              "candidates an eviction, by single cost (not with objective=head)"),
                    real_knob("step", "0.1", 0.01, 0.5, "share evicted at most in a round")},
          .make = make_behavior};
}

}  // namespace pith
