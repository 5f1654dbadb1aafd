#pragma once

#include <string>

namespace pith {

/// The shortest spec of the same policy: the name of a preset, or without what is the default
/// anyway. A text that is no spec comes back as it is.
std::string short_label(const std::string& spec);

/// The name that a spec begins with.
std::string policy_name(const std::string& spec);

}  // namespace pith
