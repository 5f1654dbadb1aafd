#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pith {

/// One part of a spec as written: a name and its knobs, not yet checked against any registry.
struct SpecPart {
  std::string name;
  std::vector<std::pair<std::string, std::string>> arguments;
};

/// name[(knob=value,...)][+part[(knob=value,...)]]...
struct Spec {
  SpecPart score;
  std::vector<SpecPart> parts;
};

/// Splits a spec string; spaces between its words are skipped. Throws Error(usage) saying where it
/// departs from the grammar, names a knob twice, or is longer than 512 bytes.
Spec parse_spec(std::string_view text);

}  // namespace pith
