#pragma once

#include "policy/response_moment.h"

namespace pith {

/// What abstain() reads.
Needs abstain_needs();

/// Keeps every row whole whose plan is estimated to err by more than `most` of what the row
/// answers: (1 - w)^T G (1 - w) / tr G over the queries of the prompt turned behind it (as `pith
/// risk` prints it for `--queries future`). A note says which, and how many entries that adds.
/// Returns the bytes used at once. Throws what each_row() does, and Error(usage) where the prompt
/// was not observed.
size_t abstain(Plan& plan, double most, const PolicyContext& context);

}  // namespace pith
