#pragma once

#include "policy/policy.h"

/// One function a wrapper, each defined in the file of its name; registry.cpp lists them.
namespace pith {

WrapperRow smooth_row();
WrapperRow chunk_row();
WrapperRow critical_row();
WrapperRow inverse_row();
WrapperRow weights_row();
WrapperRow omp_row();
WrapperRow pps_row();
WrapperRow rounding_row();
WrapperRow tree_row();
WrapperRow clusters_row();
WrapperRow merge_row();

}  // namespace pith
