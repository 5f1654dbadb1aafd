#pragma once

namespace pith::tools {

/// Bytes a second that `threads` threads read from memory: the best of several passes over a buffer
/// far larger than the caches.
double memory_bandwidth(int threads);

}  // namespace pith::tools
