#include "eval/correlate.h"

#include <algorithm>
#include <cmath>

#include "base/argmax.h"
#include "eval/eviction_masks.h"
#include "eval/fidelity.h"
#include "eval/metrics.h"
#include "eval/teacher_forced.h"
#include "policy/policy.h"
#include "session/session.h"

namespace pith {
namespace {

void check_rows(std::span<const FidelityRow> rows, const CorrelateOptions& options) {
  for (const FidelityRow& row : rows) {
    const size_t scored = scored_positions(row).size();
    if (!options.own && scored < size_t(options.positions)) {
      throw Error(ErrorCode::usage, "row " + row.id + " has " + std::to_string(scored) +
                                        " scored positions, and the mean is over " +
                                        std::to_string(options.positions) +
                                        ": ask for fewer, leave it out, or use --own");
    }
    if (row.context.size() <= size_t(options.yardstick)) {
      throw Error(ErrorCode::usage, "row " + row.id + " has a context of " +
                                        std::to_string(row.context.size()) +
                                        " tokens, and the KL is to be measured at the last " +
                                        std::to_string(options.yardstick) + " of them");
    }
  }
}

/// The row up to its last scored position of the first `count`.
FidelityRow first_scored(FidelityRow row, int count) {
  const size_t end = scored_positions(row)[size_t(count) - 1] + 1;
  row.continuation.resize(end);
  row.score.resize(end);
  return row;
}

/// A mask as far as it concerns the entries before `position`; a head of which it keeps none of
/// these keeps the first one, since there is no attention over nothing.
Plan before(const Plan& mask, int32_t position) {
  Plan out = mask;
  for (RowPlan& row : out.rows) {
    row.keep.erase(std::ranges::lower_bound(row.keep, position), row.keep.end());
    if (row.keep.empty()) row.keep.push_back(0);
  }
  return out;
}

/// One row of the protocol: the read context and what the full cache made of it.
class Window {
 public:
  Window(const Model& model, const FidelityRow& row, const CorrelateOptions& options,
         const std::vector<Policy>& policies, const Progress& progress)
      : options_(options), policies_(policies), row_(row), base_(model, options.session) {
    Needs needs{.tail = options.yardstick};
    for (const Policy& policy : policies) needs = needs | policy.needs();
    constexpr double kPrefill = 0.5;
    base_.prefill(row.context, needs, part_of(progress, 0, kPrefill));
    base_.impl().run_passes(needs, part_of(progress, kPrefill, 1));
    for (const std::string& budget : options.budgets) kept_.push_back(kept_by(budget));
    protection_ = protection();
    row_ = options.own ? own_continuation(row) : first_scored(row, options.positions);
    Session full = base_.fork();
    full_logits_ = scored_logits(full, row_);
  }

  std::vector<Scores> score(const Progress& progress) {
    std::vector<Scores> out;
    const auto count = double(policies_.size());
    for (const Policy& policy : policies_) {
      const auto done = double(out.size());
      const Progress mine = part_of(progress, done / count, (done + 1) / count);
      try {
        out.push_back(policy.score(input(policy, mine).context));
      } catch (const Error& e) {
        throw Error(e.code(), policy.spec() + ", row " + row_.id + ": " + e.what());
      }
    }
    return out;
  }

  std::vector<Plan> draw(const std::vector<Scores>& scores) {
    std::vector<MaskMaker> makers;
    for (size_t p = 0; p < policies_.size(); ++p) {
      if (!policies_[p].row().draws_at_random) makers.push_back({&policies_[p], &scores[p]});
    }
    return draw_masks(input(policies_[0], {}).context, kept_, makers, options_.masks,
                      options_.seed);
  }

  /// [policies][masks]
  std::vector<std::vector<double>> rate(const std::vector<Scores>& scores,
                                        std::span<const Plan> masks) {
    std::vector<std::vector<double>> out;
    out.reserve(policies_.size());
    for (size_t p = 0; p < policies_.size(); ++p) {
      out.push_back(policies_[p].mask_costs(masks, scores[p], input(policies_[p], {}).context));
    }
    return out;
  }

  /// Mean KL over the later positions after a mask.
  double later_kl(const Plan& mask) {
    Session session = base_.fork();
    session.impl().cache.apply(mask);
    return mean_kl(full_logits_, scored_logits(session, row_));
  }

  /// Mean KL over the last prompt positions, read again after a mask of what lies before them.
  double tail_kl(const Plan& mask) {
    const std::vector<int32_t>& tokens = base_.impl().tokens;
    const auto tail = std::span(tokens).last(size_t(options_.yardstick));
    const auto begin = int32_t(tokens.size() - tail.size());
    Session session = base_.fork();
    session.trim(begin);
    session.impl().cache.apply(before(mask, begin));
    const size_t n_logits = tail.size() * size_t(base_.model().shape().n_vocab);
    return mean_kl(std::span(base_.impl().seen.logits).last(n_logits), session.evaluate(tail));
  }

 private:
  /// The row with what the full cache says after it.
  FidelityRow own_continuation(FidelityRow row) {
    const auto n_vocab = size_t(base_.model().shape().n_vocab);
    const int32_t first = argmax(std::span(base_.impl().seen.logits).last(n_vocab));
    row.continuation = greedy_tokens(base_.fork(), first, options_.positions, false);
    row.score.assign(row.continuation.size(), 1);
    return row;
  }

  int64_t kept_by(const std::string& text) {
    const Budget budget = Budget::parse(text);
    const SessionImpl& session = base_.impl();
    const int64_t kept = row_.prompt_tokens == 0
                             ? session.kept_by(budget, false)
                             : session.kept_by(budget, false, row_.prompt_tokens,
                                               generated_window(options_.session));
    if (kept < session.cache.total_entries()) return kept;
    throw Error(ErrorCode::usage, "a budget of " + text + " evicts nothing of row " + row_.id);
  }

  int64_t least_kept() const { return *std::ranges::min_element(kept_); }

  /// What no mask evicts.
  Protection protection() const {
    const SessionOptions& session = options_.session;
    if (row_.prompt_tokens > 0) {
      return {.sinks = 0, .window = generated_window(session), .prompt = row_.prompt_tokens};
    }
    return fit_protection(least_kept(), base_.model().shape().n_rows(), session.protection);
  }

  PolicyInput input(const Policy& policy, const Progress& progress) {
    return base_.impl().input_of(policy, least_kept(), protection_, progress);
  }

  double mean_kl(std::span<const float> full, std::span<const float> other) {
    const double value = mean(
        kl_by_position(full, other, base_.model().shape().n_vocab, base_.impl().options.threads));
    if (std::isfinite(value)) return value;
    throw Error(ErrorCode::internal, "the logits are not finite in row " + row_.id);
  }

  const CorrelateOptions& options_;
  const std::vector<Policy>& policies_;
  FidelityRow row_;
  Session base_;
  std::vector<int64_t> kept_;  // entries, of each budget
  Protection protection_;
  std::vector<float> full_logits_;  // [positions, n_vocab]
};

RowCorrelation run_row(const Model& model, const FidelityRow& row, const CorrelateOptions& options,
                       const std::vector<Policy>& policies, const Progress& progress) {
  // About what reading and scoring take of the time with the default number of masks.
  constexpr double kReading = 0.03, kScoring = 0.08;
  const Progress reading = part_of(progress, 0, kReading);
  const Progress scoring = part_of(progress, kReading, kScoring);
  Window window(model, row, options, policies, reading);
  const std::vector<Scores> scores = window.score(scoring);
  const std::vector<Plan> masks = window.draw(scores);
  RowCorrelation out{row.id, row.kind, {}, window.rate(scores, masks)};
  std::vector<double> tail;
  for (const Plan& mask : masks) {
    const double done = double(out.kl.size()) / double(masks.size());
    report_share(progress, kScoring + (1 - kScoring) * done);
    out.kl.push_back(window.later_kl(mask));
    if (options.yardstick > 0) tail.push_back(window.tail_kl(mask));
  }
  if (options.yardstick > 0) out.cost.push_back(std::move(tail));
  return out;
}

}  // namespace

std::vector<std::string> rater_names(const CorrelateOptions& options) {
  std::vector<std::string> names = options.policies;
  if (options.yardstick > 0) {
    names.push_back("KL measured at the last " + std::to_string(options.yardstick) +
                    " prompt positions");
  }
  return names;
}

std::vector<std::string> rated_policies(std::span<const std::string> specs,
                                        std::vector<std::string>& notes) {
  std::vector<std::string> out;
  bool any_random = false;
  for (const std::string& spec : specs) {
    const Policy policy = Policy::parse(spec);
    if (policy.keeps_all()) {
      throw Error(ErrorCode::usage, policy.spec() + " evicts nothing and rates no eviction");
    }
    any_random = any_random || policy.row().draws_at_random;
    if (std::ranges::find(out, policy.spec()) == out.end()) out.push_back(policy.spec());
  }
  for (const ScoreRow& row : score_rows()) {
    if (!row.draws_at_random || any_random) continue;
    out.push_back(Policy::parse(row.name).spec());
    notes.push_back(row.name + " added: it rates a mask by how much it evicts and nothing else");
  }
  return out;
}

void run_correlate(const Model& model, std::span<const FidelityRow> rows,
                   const CorrelateOptions& options,
                   const std::function<void(RowCorrelation&&)>& sink, const Progress& progress) {
  check_rows(rows, options);
  std::vector<Policy> policies;
  policies.reserve(options.policies.size());
  for (const std::string& spec : options.policies) policies.push_back(Policy::parse(spec));
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto n_rows = double(rows.size());
    sink(run_row(model, rows[r], options, policies,
                 part_of(progress, double(r) / n_rows, double(r + 1) / n_rows)));
  }
}

}  // namespace pith
