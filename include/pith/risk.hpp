#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pith/pith.hpp"

/// How well each KV head can be compressed at all, and how well a plan does it (The risk of KV
/// cache compression, arXiv 2607.01520).
///
/// Entry i of a head answers a query q with phi_i(q) = alpha_qi [v_i - o_q; tau]: alpha the softmax
/// attention, o the head's output, tau 0.3 times the values' size. Sigma is the second moment of
/// these profiles over the queries; its trace and spectrum say how many entries' worth of answers
/// there are. All bounds hold up to constants that are not known: they compare heads, texts and
/// budgets, and are no prediction of an error.
namespace pith {

/// The queries over which risk is a mean.
enum class RiskQueries {
  tail,    ///< the last 32 positions of the prompt
  future,  ///< up to 128 queries of the prompt, turned to positions behind it
  repeat,  ///< the model is told to repeat the prompt
  file     ///< RiskOptions::texts, each run after the prompt
};
/// Names of the above, in their order.
inline constexpr std::array<std::string_view, 4> kRiskQueriesNames = {"tail", "future", "repeat",
                                                                      "file"};

struct RiskOptions {
  std::string policy = "pith";                 ///< whose plans are judged
  std::vector<std::string> budgets = {"25%"};  ///< at which plans are made
  RiskQueries queries = RiskQueries::future;
  std::vector<std::vector<int32_t>> texts = {};  ///< tokens, for RiskQueries::file
  int eigenvalues = 32;                          ///< leading ones that are returned
  /// A head with at most buckets * (head_dim + 1) entries is measured exactly; of a longer one the
  /// queries are sketched into so many random sums, which leaves tr(Sigma) right in expectation and
  /// the tail somewhat low.
  int buckets = 16;
};

/// Bounds on the mean squared error of K weighted entries of a head, up to constants, in the
/// values' units squared.
struct RiskBounds {
  double aware = 0;      ///< tail_{K/3}(Sigma) / K: the queries are known
  double agnostic = 0;   ///< tr(Sigma) / K: they are not
  double streaming = 0;  ///< log(2 + t / K) / K tr(Sigma): nor what follows, t the head's entries
};

/// A head at one budget.
struct BudgetRisk {
  int entries = 0;        ///< K: the budget's share of the head's entries, at least 1
  double tail_share = 0;  ///< tail_{K/3}(Sigma) / tr(Sigma), K/3 rounded down; in [0, 1]
  RiskBounds bounds;
  int kept = 0;           ///< entries of the plan, which may share the budget unevenly
  double plan_error = 0;  ///< (1 - w)^T G (1 - w) / tr(Sigma), w the plan's multipliers, 0: evicted
  double evicted_mass = 0;  ///< mean attention that the queries pay to what the plan evicts
};

/// One (layer, KV head). Where the values are zero there is nothing to lose: tr(Sigma), the shares
/// and the plan error are 0.
struct HeadRisk {
  int entries = 0;
  double tr = 0;                    ///< of Sigma, in the values' units squared
  std::vector<double> eigenvalues;  ///< of Sigma: leading ones, falling, none negative
  std::vector<BudgetRisk> at;       ///< in the order of the budgets
};

struct Risk {
  std::string policy;  ///< full spec with all defaults
  std::vector<std::string> budgets;
  RiskQueries queries = RiskQueries::future;
  std::vector<std::vector<HeadRisk>> layers;  ///< [n_layer][n_head_kv]
  std::vector<std::string> notes;
};

/// What Session::prefill has to observe for it. Throws Error(usage) for a policy spec that is none.
Needs needs_of(const RiskOptions& options);

/// Risk of the session's cache, which stays as it is. A budget of the whole cache evicts nothing
/// and errs by 0. The same for any number of threads, to rounding. Throws Error(usage) for a policy
/// that never evicts, no budget, an option out of range, an empty text or where there is nothing in
/// the cache or nothing observed; and what Session::compress throws.
Risk measure_risk(Session& session, const RiskOptions& options = {}, const Progress& progress = {});

}  // namespace pith
