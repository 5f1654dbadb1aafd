#include "pith/policy.hpp"

namespace pith {

int64_t Plan::total() const {
  int64_t total = 0;
  for (const RowPlan& row : rows) total += int64_t(row.keep.size());
  return total;
}

}  // namespace pith
