#include <algorithm>
#include <cmath>
#include <numeric>

#include "pith/calibration.hpp"
#include "policy/budgets/budgets.h"
#include "policy/budgets/contest.h"

namespace pith {

namespace {

/// A budget is tight where it holds at most this part of the eligible entries.
constexpr double kTight = 0.05;
/// No head keeps more of its eligible entries than this, or than kCapOverMean of the mean.
constexpr double kCap = 0.8;
constexpr double kCapOverMean = 1.05;
/// So that 80 % of 200 are 160 and not one more.
constexpr double kRounding = 1e-9;

/// The head shares at `kept`, from the table's two neighbours of it, linear in log(kept); outside
/// the table those of its end.
std::vector<double> shares_at(std::span<const HeadShares> table, double kept) {
  const auto below = std::ranges::find_if(table, [&](const auto& s) { return s.kept <= kept; });
  const auto& low = below == table.end() ? table.back() : *below;
  const auto& high = below == table.begin() ? low : *(below - 1);
  const double span = std::log(high.kept / low.kept);
  const double part = span > 0 ? std::clamp(std::log(kept / low.kept) / span, 0.0, 1.0) : 0;
  std::vector<double> out(low.row.size());
  std::ranges::transform(low.row, high.row, out.begin(),
                         [&](double a, double b) { return a + part * (b - a); });
  return out;
}

class SharesRule : public BudgetRule {
 public:
  SharesRule(double mix, double tight) : mix_(mix), tight_(tight) {}

  Needs needs() const override { return {.calibration = true}; }

  std::vector<int> quotas(const Scores&, const PolicyContext& context) const override {
    const RowLimits limits = row_limits(context);
    const int64_t total = kept_entries(limits, context.keep_total);
    if (context.calibration == nullptr) return uniform_quotas(limits, total);
    const auto eligible = eligible_counts(context, limits);
    const int64_t eligible_total = std::accumulate(eligible.begin(), eligible.end(), int64_t{0});
    const int64_t guarded = limits.most_total - eligible_total;
    const double kept = double(total - guarded) / double(std::max<int64_t>(eligible_total, 1));
    const double cap = std::min(1.0, std::max(kCap, kCapOverMean * kept));
    std::vector<int> room;
    for (size_t r = 0; r < eligible.size(); ++r) {
      const int own = limits.least[r] - (limits.most[r] - eligible[r]);
      room.push_back(std::max(0, int(std::ceil(cap * eligible[r] - kRounding)) - own));
    }
    const double mix = kept <= kTight ? tight_ : mix_;
    return quotas_above_least(weights(*context.calibration, kept, mix), limits, room, total);
  }

 private:
  /// Entries of each row that are not protected.
  static std::vector<int> eligible_counts(const PolicyContext& context, const RowLimits& limits) {
    std::vector<int> out(limits.most.size());
    for (size_t r = 0; r < out.size(); ++r) out[r] = eligible_entries(context, int(r)).count();
    return out;
  }

  static std::vector<double> weights(const Calibration& calibration, double kept, double mix) {
    auto out = shares_at(calibration.shares, kept);
    const double uniform = 1 / double(out.size());
    for (double& w : out) w = mix * w + (1 - mix) * uniform;
    return out;
  }

  double mix_, tight_;
};

Knob share_knob(const std::string& name, const std::string& value, const std::string& help) {
  return {.name = name, .value = value, .min = 0, .max = 1, .choices = {}, .help = help};
}

}  // namespace

BudgetRow shares_row() {
  return {
      .name = "shares",
      .summary =
          "each KV head gets the share that the model's calibration measured for it, mixed with "
          "an equal one; at most max(80%, 1.05 x the mean) of a head's entries, the excess "
          "going to the others by share. Protected entries come on top. Without a calibration: "
          "uniform",
      .paper = "",
      .knobs = {share_knob("mix", "0.75", "part that goes by the measured shares"),
                share_knob("tight", "0.5",
                           "the same where at most 5% of the entries that are not protected stay")},
      .make = [](const KnobValues& knobs) -> std::unique_ptr<BudgetRule> {
        return std::make_unique<SharesRule>(knobs.number("mix"), knobs.number("tight"));
      }};
}

}  // namespace pith
