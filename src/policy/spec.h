#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pith {

/// One half of a spec as written: a name and its knobs, not yet checked against any registry.
struct SpecPart {
  std::string name;
  std::vector<std::pair<std::string, std::string>> arguments;
};

/// name[(knob=value,...)][+rule[(knob=value,...)]]
struct Spec {
  SpecPart score;
  std::optional<SpecPart> rule;
};

/// Splits a spec string; spaces between its words are skipped. Throws Error(usage) saying where it
/// departs from the grammar, names a knob twice, or is longer than 512 bytes.
Spec parse_spec(std::string_view text);

}  // namespace pith
