#pragma once

#include <functional>

namespace pith {

/// Calls body(i) once for each i in [0, count) on up to `threads` threads, in no stated order.
/// Results are the same for any number of threads where each call writes only what belongs to its
/// i. The first exception is rethrown after all threads have stopped.
void parallel_for(int count, int threads, const std::function<void(int)>& body);

}  // namespace pith
