#include "policy/policies/policies.h"

namespace pith {

ScoreRow full_row() {
  return {.name = "full",
          .summary = "keeps every entry, whatever the budget: what the others are measured against",
          .paper = "",
          .formula = "",
          .differences = "",
          .budget = "",
          .knobs = {},
          .make = [](const KnobValues&) -> std::unique_ptr<Scorer> { return nullptr; }};
}

}  // namespace pith
