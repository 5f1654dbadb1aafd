#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace pith::tools {

/// Each adds one command to the tool. `command_line` goes into result files.
void add_run(CLI::App& tool, const std::string& command_line);
void add_compare(CLI::App& tool, const std::string& command_line);
void add_correlate(CLI::App& tool, const std::string& command_line);
void add_risk(CLI::App& tool, const std::string& command_line);
void add_bench(CLI::App& tool, const std::string& command_line);
void add_calibrate(CLI::App& tool);
void add_policies(CLI::App& tool);
void add_inspect(CLI::App& tool);

}  // namespace pith::tools
