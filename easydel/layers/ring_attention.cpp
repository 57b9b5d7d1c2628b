#include "easydel/layers/ring_attention.h"

#include "easydel/core/error.h"

namespace easydel {

at::Tensor ring_attention(const at::Tensor&, const at::Tensor&, const at::Tensor&, const operations::AttentionOptions&,
                          const Group&) {
  fail<NotSupportedError>("[attention] \"ring\" is not there yet.");
}

}  // namespace easydel
