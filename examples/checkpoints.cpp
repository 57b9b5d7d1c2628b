// Halves every weight of a checkpoint, reading and writing one tensor at a time. usage: checkpoints SOURCE DESTINATION
#include <ATen/ATen.h>
#include <easydel/easydel.h>

#include <iostream>

namespace ed = easydel;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: checkpoints SOURCE DESTINATION\n";
    return 2;
  }
  try {
    const auto checkpoint = ed::Checkpoint::open(argv[1]);  // a file or a directory: reads headers, maps the data
    for (const ed::TensorInfo& info : checkpoint->infos()) {
      std::cout << info.name << " " << info.stored_as << " " << at::IntArrayRef(info.shape) << "\n";
    }

    const ed::TensorInfo& first = checkpoint->infos().at(0);
    const std::vector<int64_t> starts(first.shape.size(), 0);
    const at::Tensor all = checkpoint->tensor(first.name);                       // a view of the map: nothing is copied
    const at::Tensor same = checkpoint->slice(first.name, starts, first.shape);  // reads only the bytes of this slice
    std::cout << "the same memory: " << std::boolalpha << (all.data_ptr() == same.data_ptr()) << "\n";

    ed::save_checkpoint(argv[2], checkpoint->infos(),
                        [&](const ed::TensorInfo& info) { return checkpoint->tensor(info.name) / 2; },
                        {.max_shard_size = "2GB"});
  } catch (const ed::Error& error) {
    std::cerr << "checkpoints: " << error.what() << "\n";
    return 1;
  }
}
