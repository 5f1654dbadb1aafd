#include <array>

#include "policy/budgets/budgets.h"
#include "policy/policies/policies.h"
#include "policy/policy.h"
#include "policy/wrappers/wrappers.h"

namespace pith {

std::span<const ScoreRow> score_rows() {
  static const std::array rows{full_row(),     random_row(), streaming_row(),    knorm_row(),
                               keydiff_row(),  lagkv_row(),  leverage_row(),     compactor_row(),
                               tova_row(),     h2o_row(),    scissorhands_row(), snapkv_row(),
                               expected_row(), caote_row(),  sensitivity_row(),  defensive_row(),
                               kvzip_row(),    kvgrad_row(), rkv_row(),          behavior_row(),
                               deep_row()};
  return rows;
}

std::span<const BudgetRow> budget_rows() {
  static const std::array rows{uniform_row(), global_row(), ada_row(), pyramid_row(), shares_row()};
  return rows;
}

std::span<const WrapperRow> wrapper_rows() {
  static const std::array rows{smooth_row(),  chunk_row(),    critical_row(), inverse_row(),
                               weights_row(), omp_row(),      pps_row(),      rounding_row(),
                               tree_row(),    clusters_row(), merge_row()};
  return rows;
}

std::span<const PresetRow> preset_rows() {
  static const std::array rows{
      PresetRow{.name = "pith",
                .summary = "what the end of the prompt looks at and its neighbours, beside entries "
                           "that stand best for all others, weighted; heads by their measured "
                           "shares. One pass over the prompt",
                .spec = "kvzip(source=tail)+smooth(kernel=21)+omp+shares"},
      PresetRow{.name = "pith-deep",
                .summary = "what the model reads or is moved by when it repeats the prompt, "
                           "weighted: for a context that many questions are asked of. Two passes",
                .spec = "deep+weights(queries=repeat)+global"},
      PresetRow{.name = "pith-stream",
                .summary = "a rolling pool: what the newest block looks at, beside entries that "
                           "stand best for all others, weighted; for --stream and --every",
                .spec = "kvzip(source=tail)+smooth(kernel=5)+omp(queries=tail)+global"}};
  return rows;
}

}  // namespace pith
