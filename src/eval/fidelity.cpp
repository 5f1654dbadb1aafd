#include "eval/fidelity.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/argmax.h"
#include "base/parallel.h"
#include "eval/metrics.h"
#include "eval/teacher_forced.h"
#include "policy/policy.h"
#include "session/session.h"
#include "session/trial.h"

namespace pith {
namespace {

std::optional<int32_t> token_after(const FidelityRow& row, size_t position) {
  if (position + 1 == row.continuation.size()) return std::nullopt;
  return row.continuation[position + 1];
}

void fill_metrics(RowFidelity& result, std::span<const PredictionChange> changes) {
  double same = 0, dnll = 0, squared = 0, followed = 0;
  for (const PredictionChange& change : changes) {
    if (!std::isfinite(change.kl)) {
      throw Error(ErrorCode::internal, "the logits are not finite in row " + result.id);
    }
    result.kl.push_back(change.kl);
    same += change.same_top ? 1 : 0;
    if (!change.dnll) continue;
    dnll += *change.dnll;
    squared += *change.dp * *change.dp;
    ++followed;
  }
  result.same_top = same / double(changes.size());
  result.dnll = dnll / followed;
  result.mean_squared_dp = squared / followed;
}

std::optional<int> first_difference(std::span<const int32_t> a, std::span<const int32_t> b) {
  const auto [at, other] = std::ranges::mismatch(a, b);
  if (at == a.end() && other == b.end()) return std::nullopt;
  return int(at - a.begin());
}

/// `positions` are those kept of n_positions; see KeptPicture::rows.
std::vector<uint8_t> bucketed(std::span<const int32_t> positions, int n_positions, int buckets) {
  std::vector<int> count(size_t(buckets), 0);
  // The last bucket that begins at or before the position.
  for (const int64_t p : positions) {
    ++count[size_t(((p + 1) * buckets - 1) / n_positions)];
  }
  std::vector<uint8_t> out;
  for (int64_t b = 0; b < buckets; ++b) {
    const int64_t size = (b + 1) * n_positions / buckets - b * n_positions / buckets;
    const int kept = count[size_t(b)];
    out.push_back(uint8_t(kept == 0 ? 0 : std::max<int64_t>(1, 255 * kept / size)));
  }
  return out;
}

KeptPicture picture_of(const KvCache& cache, const ModelShape& shape) {
  constexpr int kBuckets = 200;  // about as many as a small chart can show
  KeptPicture picture{shape.n_layer, shape.n_head_kv, cache.next_position(), {}};
  const int buckets = std::min(kBuckets, picture.n_positions);
  for (int layer = 0; layer < shape.n_layer; ++layer) {
    for (int head = 0; head < shape.n_head_kv; ++head) {
      picture.rows.push_back(bucketed(cache.positions(layer, head), picture.n_positions, buckets));
    }
  }
  return picture;
}

/// One row of the protocol: the read context and what the full cache made of it.
class RowRun {
 public:
  RowRun(const Model& model, const FidelityRow& row, const FidelityOptions& options,
         const Progress& progress)
      : row_(row),
        options_(options),
        base_(model, options.session),
        scored_(scored_positions(row)) {
    constexpr double kPrefill = 0.5;
    const double passed = options.trial ? 0.75 : 1;
    base_.prefill(row.context, observed(), part_of(progress, 0, kPrefill));
    // Once for all forks.
    base_.impl().run_passes(observed(), part_of(progress, kPrefill, passed));
    Session full = full_cache(part_of(progress, passed, passed));
    if (options.diverge > 0) {
      const auto n_vocab = size_t(model.shape().n_vocab);
      first_token_ = argmax(std::span(full.impl().seen.logits).last(n_vocab));
      full_greedy_ = greedy_tokens(full.fork(), first_token_, options.diverge, true);
    }
    full_logits_ = scored_logits(full, row);
    const auto after = int64_t(row.context.size()) - row.prompt_tokens;
    if (options.trial && after >= kLeastTokensOfTrial) {
      trial_.emplace(base_.impl(), observed(), part_of(progress, passed, 1));
    }
  }

  /// With `picture`, also which entries stay.
  RowFidelity measure(const FidelityCase& cell, bool picture, const Progress& progress) const {
    RowFidelity result;
    result.id = row_.id;
    result.kind = row_.kind;
    Session session = base_.fork();
    result.receipt = compress(session.impl(), cell, progress);
    if (picture) result.kept = picture_of(session.impl().cache, base_.model().shape());
    if (options_.diverge > 0) {
      const auto own = greedy_tokens(session.fork(), first_token_, options_.diverge, true);
      result.divergence = first_difference(full_greedy_, own);
    }
    if (trial_) {
      result.trial_kl =
          trial_->kl([&](SessionImpl& copy) { compress(copy, cell, part_of(progress, 1, 1)); });
    }
    fill_metrics(result, changes(scored_logits(session, row_)));
    return result;
  }

 private:
  /// What all cases are measured against.
  Session full_cache(const Progress& progress) const {
    const SessionOptions plain = unrounded(options_.session);
    if (plain.k_type == options_.session.k_type && plain.v_type == options_.session.v_type) {
      return base_.fork();
    }
    Session session(base_.model(), plain);
    session.prefill(row_.context, Needs{.tail = 1}, progress);
    return session;
  }

  Receipt compress(SessionImpl& session, const FidelityCase& cell, const Progress& progress) const {
    const Policy policy = Policy::parse(cell.policy);
    const Budget budget = Budget::parse(cell.budget);
    if (row_.prompt_tokens == 0) return session.compress(policy, budget, progress);
    return session.compress_after(row_.prompt_tokens, generated_window(options_.session), policy,
                                  budget, progress);
  }

  /// What any policy reads, and the last position, whose logits start the free run.
  Needs observed() const {
    Needs needs{.tail = 1};
    for (const FidelityCase& cell : options_.cases) needs = needs | needs_of(cell.policy);
    return needs;
  }

  std::vector<PredictionChange> changes(const std::vector<float>& logits) const {
    const size_t n_vocab = full_logits_.size() / scored_.size();
    std::vector<PredictionChange> out(scored_.size());
    parallel_for(int(scored_.size()), base_.receipt().threads, [&](int i) {
      const size_t at = size_t(i) * n_vocab;
      out[size_t(i)] = compare_logits(std::span(full_logits_).subspan(at, n_vocab),
                                      std::span(logits).subspan(at, n_vocab),
                                      token_after(row_, scored_[size_t(i)]));
    });
    return out;
  }

  const FidelityRow& row_;
  const FidelityOptions& options_;
  Session base_;
  std::vector<size_t> scored_;
  std::vector<float> full_logits_;  // [scored, n_vocab]
  int32_t first_token_ = 0;
  std::vector<int32_t> full_greedy_;
  std::optional<Trial> trial_;
};

std::vector<RowFidelity> run_row(const Model& model, const FidelityRow& row,
                                 const FidelityOptions& options, bool pictures,
                                 const Progress& progress) {
  // Reading the context and the cases take about half of the time each at usual sizes.
  constexpr double kReading = 0.5;
  const RowRun run(model, row, options, part_of(progress, 0, kReading));
  std::vector<RowFidelity> results;
  const auto n_cases = double(options.cases.size());
  for (const FidelityCase& cell : options.cases) {
    const double from = kReading + (1 - kReading) * double(results.size()) / n_cases;
    report_share(progress, from);
    try {
      results.push_back(
          run.measure(cell, pictures, part_of(progress, from, from + (1 - kReading) / n_cases)));
    } catch (const Error& e) {
      throw Error(e.code(),
                  cell.policy + " at " + cell.budget + ", row " + row.id + ": " + e.what());
    }
  }
  return results;
}

}  // namespace

void run_fidelity(const Model& model, std::span<const FidelityRow> rows,
                  const FidelityOptions& options, const FidelitySink& sink,
                  const Progress& progress) {
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto n_rows = double(rows.size());
    const Progress row_progress = part_of(progress, double(r) / n_rows, double(r + 1) / n_rows);
    sink(run_row(model, rows[r], options, r == 0, row_progress));
  }
}

SessionOptions unrounded(SessionOptions options) {
  for (KvType* type : {&options.k_type, &options.v_type}) {
    if (*type == KvType::q8_0) *type = KvType::f16;
  }
  return options;
}

int generated_window(const SessionOptions& options) {
  const int window = options.protection.window;
  return window < 0 ? GenerationOptions{}.window : window;
}

std::span<const std::string> reference_policies() {
  static const std::array<std::string, 3> kPolicies{"full", "random", "streaming"};
  return kPolicies;
}

std::vector<FidelityCase> make_cases(std::span<const std::string> policies,
                                     std::span<const std::string> budgets,
                                     std::span<const std::string> always,
                                     std::vector<std::string>& notes) {
  for (const std::string& budget : budgets) Budget::parse(budget);
  std::vector<Policy> parsed;
  auto add = [&](const std::string& spec) {
    Policy policy = Policy::parse(spec);
    if (std::ranges::find(parsed, policy.spec(), &Policy::spec) == parsed.end()) {
      parsed.push_back(std::move(policy));
    }
  };
  auto asked = [&](const std::string& name) {
    return std::ranges::any_of(
        policies, [&](const std::string& spec) { return Policy::parse(spec).row().name == name; });
  };
  for (const std::string& name : always) {
    if (asked(name)) continue;
    add(name);
    notes.push_back(name + " added for reference");
  }
  for (const std::string& spec : policies) add(spec);

  std::vector<FidelityCase> cases;
  for (const Policy& policy : parsed) {
    if (policy.keeps_all()) {
      cases.push_back({policy.spec(), "100%"});
      continue;
    }
    for (const std::string& budget : budgets) cases.push_back({policy.spec(), budget});
  }
  return cases;
}

}  // namespace pith
