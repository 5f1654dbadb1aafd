#pragma once

#include <Eigen/Core>
#include <vector>

namespace pith {

/// A vector that starts on the boundary that Eigen's vector code works from. What an Eigen
/// expression writes before such a boundary it computes a number at a time, and an exponential or a
/// sum made that way differs in its last bit: in memory that starts anywhere, results would hang on
/// where it happens to lie, and a choice between near equals would differ from run to run.
template <class T>
using AlignedVector = std::vector<T, Eigen::aligned_allocator<T>>;

}  // namespace pith
