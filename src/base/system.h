#pragma once

#include <cstdint>

namespace pith {

/// Cores without their hyper-threads; at least 1.
int physical_cores();

/// Most memory this process has had resident, in bytes; 0 where the system does not tell.
int64_t peak_rss_bytes();

/// Memory that can be had without swapping, in bytes; a very large number where the system does not
/// tell.
int64_t available_memory_bytes();

}  // namespace pith
