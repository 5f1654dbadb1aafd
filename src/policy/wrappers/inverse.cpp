#include <algorithm>
#include <cmath>

#include "policy/protection.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

namespace {

class InverseWrapper : public Wrapper {
 public:
  bool weighs() const override { return true; }

  void refine(Plan& plan, const Scores&, const PolicyContext& context) const override {
    for (size_t row = 0; row < plan.rows.size(); ++row) {
      weigh_row(plan.rows[row], eligible_entries(context, int(row)));
    }
  }

 private:
  static void weigh_row(RowPlan& row, const Eligible& eligible) {
    const auto drawn = [&](int32_t entry) {
      return entry >= eligible.first && entry < eligible.last;
    };
    const auto kept = std::ranges::count_if(row.keep, drawn);
    if (kept == 0 || kept == eligible.count()) return;
    const auto weight = float(std::log(double(eligible.count()) / double(kept)));
    for (const int32_t entry : row.keep) row.log_weight.push_back(drawn(entry) ? weight : 0);
  }
};

}  // namespace

WrapperRow inverse_row() {
  return {.name = "inverse",
          .summary = "kept entries stand for those that were not drawn",
          .paper =
              "inverse probability weights, as in The risk of KV cache compression, "
              "arXiv 2607.01520",
          .formula = "log-weight log(1/pi), pi the share of a row's eligible entries that is kept",
          .differences = "",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Wrapper> {
            return std::make_unique<InverseWrapper>();
          },
          .refuses = [](const ScoreRow& score) -> std::string {
            return score.draws_at_random
                       ? ""
                       : "its weights are right only where every entry is as likely to be kept";
          }};
}

}  // namespace pith
