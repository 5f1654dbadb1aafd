#pragma once

namespace pith::tools {

/// From now on the first Ctrl-C or SIGTERM only sets a flag, so that what is done so far can be
/// kept; the second one ends the process as usual.
void catch_interrupts();

/// True after the first Ctrl-C.
bool interrupted();

}  // namespace pith::tools
