// In a build without yaml-cpp.
#include "easydel/core/error.h"
#include "easydel/elarge/yaml/yaml_node.h"

namespace easydel {

std::shared_ptr<YamlNode> read_yaml_nodes(const std::string&, const std::string& name, const YamlLimits&) {
  fail<NotSupportedError>("[yaml] ", name,
                          ": this build cannot read YAML. Install libyaml-cpp-dev and configure again, or use JSON.");
}

}  // namespace easydel
