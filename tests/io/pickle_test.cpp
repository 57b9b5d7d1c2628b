#include "easydel/io/torch/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "easydel/core/error.h"
#include "easydel/core/files/file.h"
#include "easydel/io/torch/torch_globals.h"

namespace easydel {
namespace {

using namespace std::string_literals;
using testing::ThrowsMessage;

// Keeps the bytes that the values point into.
struct Parsed {
  explicit Parsed(std::string content, const PickleOptions& options = {.where = "x.pkl"})
      : bytes(std::move(content)), pickle(Pickle::parse(std::as_bytes(std::span(bytes)), options)) {}
  std::string bytes;
  Pickle pickle;
  const PickleValue& root() const { return pickle.root(); }
};

// The opcodes between "protocol 2" and "stop".
Parsed parse(const std::string& opcodes) { return Parsed("\x80\x02" + opcodes + "."); }

void expect_pickle_refused(const std::string& opcodes, const std::string& message, PickleOptions options = {}) {
  options.where = "x.pkl";
  const std::string bytes = "\x80\x02" + opcodes;
  EXPECT_THAT([&] { Pickle::parse(std::as_bytes(std::span(bytes)), options); },
              ThrowsMessage<FormatError>("[x.pkl] the pickle " + message));
}

// What Python's pickle module wrote, kept as seeds for fuzzing.
std::string read_seed(const std::string& name) {
  return read_file(std::string(std::getenv("EASYDEL_SOURCE_DIR")) + "/tests/fuzz/corpus/pickle/" + name);
}

const PickleValue* find(const PickleDict& dict, std::string_view key) {
  for (const auto& [name, value] : dict.items) {
    if (held<PickleStr>(name) && held<PickleStr>(name)->text == key) return &value;
  }
  return nullptr;
}

class PythonPickle : public testing::TestWithParam<int> {};

TEST_P(PythonPickle, KeepsItsPlainValues) {
  const Parsed parsed(read_seed("plain-" + std::to_string(GetParam())),
                      {.where = "x.pkl", .globals = torch_global_names()});
  const PickleDict& dict = *held<PickleDict>(parsed.root());
  EXPECT_TRUE(held<PickleNone>(*find(dict, "none")));
  const PickleSequence& bools = *held<PickleSequence>(*find(dict, "bools"));
  EXPECT_EQ(bools.kind, PickleSequence::Kind::Tuple);
  EXPECT_TRUE(*held<bool>(bools.items[0]));
  EXPECT_FALSE(*held<bool>(bools.items[1]));

  const PickleSequence& ints = *held<PickleSequence>(*find(dict, "ints"));
  EXPECT_EQ(ints.kind, PickleSequence::Kind::List);
  const std::vector<int64_t> expected = {0, 255, 65535, -1, int64_t{1} << 40};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(*held<int64_t>(ints.items[i]), expected[i]);
  EXPECT_EQ(held<PickleLong>(ints.items[5])->bytes, "\0\0\0\0\0\0\0\0\x40"s);  // 2^70

  EXPECT_EQ(*held<double>(*find(dict, "float")), 1.5);
  EXPECT_EQ(held<PickleStr>(*find(dict, "str"))->text, "é");
  EXPECT_EQ(held<PickleBytes>(*find(dict, "bytes"))->data, "\x00\xff"s);
  for (const char* set : {"set", "frozen"}) {
    EXPECT_EQ(held<PickleSequence>(*find(dict, set))->kind, PickleSequence::Kind::Set);
    EXPECT_EQ(held<PickleSequence>(*find(dict, set))->items.size(), 1u);
  }
  const PickleDict& nested = *held<PickleDict>(*find(dict, "nested"));
  EXPECT_EQ(held<PickleSequence>(*find(*held<PickleDict>(*find(nested, "a")), "b"))->items.size(), 3u);
  EXPECT_EQ(held<PickleCall>(*find(dict, "size"))->callee, "torch.Size");
  EXPECT_EQ(held<PickleCall>(*find(dict, "device"))->callee, "torch.device");
  EXPECT_EQ(held<PickleGlobal>(*find(dict, "dtype"))->name, "torch.float16");
}

TEST_P(PythonPickle, MayContainItself) {
  const Parsed parsed(read_seed("plain-" + std::to_string(GetParam())),
                      {.where = "x.pkl", .globals = torch_global_names()});
  const PickleSequence* cycle = held<PickleSequence>(*find(*held<PickleDict>(parsed.root()), "cycle"));
  ASSERT_EQ(cycle->items.size(), 2u);
  EXPECT_EQ(held<PickleSequence>(cycle->items[1]), cycle);
}

INSTANTIATE_TEST_SUITE_P(Protocol, PythonPickle, testing::Values(2, 3, 4, 5));

TEST(Pickle, RecordsPersistentIdsAndCalls) {
  const std::string_view globals[] = {"torch._utils.f"};
  const Parsed parsed("\x80\x02"s + "ctorch._utils\nf\n" + "K\x05Q\x85R.", {.globals = globals});
  const PickleCall* call = held<PickleCall>(parsed.root());
  EXPECT_EQ(call->callee, "torch._utils.f");
  EXPECT_EQ(*held<int64_t>(held<PicklePersistent>(call->arguments->items[0])->id), 5);
}

TEST(Pickle, DropsTheAttributesOfAnOrderedDict) {
  const Parsed parsed = parse("ccollections\nOrderedDict\n)R}X\x03\0\0\0abcNsb"s);
  EXPECT_TRUE(held<PickleDict>(parsed.root())->items.empty());
}

TEST(Pickle, SharesWhatTheMemoReturns) {
  const Parsed parsed = parse("]q\x01h\x01\x86"s);
  const PickleSequence* pair = held<PickleSequence>(parsed.root());
  EXPECT_EQ(held<PickleSequence>(pair->items[0]), held<PickleSequence>(pair->items[1]));
}

TEST(Pickle, NamesEveryOtherGlobal) {
  expect_pickle_refused("cos\nsystem\nX\x04\0\0\0true\x85R."s,
                        "calls os.system; only tensors and plain containers are read.");
  expect_pickle_refused("\x8c\x02os\x8c\x06system\x93."s,
                        "calls os.system; only tensors and plain containers are read.");
  expect_pickle_refused("c__builtin__\neval\n.", "calls builtins.eval; only tensors and plain containers are read.");
  expect_pickle_refused("ctorch\n_utils.f\n.", "calls torch._utils.f; only tensors and plain containers are read.");
  expect_pickle_refused("c\x1b[31m\n" + std::string(500, 'x') + "\n.",
                        "calls ?[31m." + std::string(200, 'x') + "…; only tensors and plain containers are read.");
}

TEST(Pickle, NamesWhatPythonPickledToCallTheSystem) {
  const std::string bytes = read_seed("system");
  EXPECT_THAT([&] { Pickle::parse(std::as_bytes(std::span(bytes)), {.where = "pytorch_model.bin"}); },
              ThrowsMessage<FormatError>("[pytorch_model.bin] the pickle calls posix.system; only tensors and plain "
                                         "containers are read."));
}

TEST(Pickle, RefusesOtherProtocols) {
  const auto refusal = [](const std::string& bytes) {
    return [bytes] { Pickle::parse(std::as_bytes(std::span(bytes)), {.where = "x.pkl"}); };
  };
  EXPECT_THAT(refusal(read_seed("protocol-0")),
              ThrowsMessage<FormatError>("[x.pkl] the pickle must have protocol 2 to 5; got none."));
  EXPECT_THAT(refusal("\x80\x06N."),
              ThrowsMessage<FormatError>("[x.pkl] the pickle must have protocol 2 to 5; got 6."));
}

TEST(Pickle, RejectsTruncationAtAnyByte) {
  const std::string whole = read_seed("protocol-2");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string part = whole.substr(0, size);
    EXPECT_THROW(Pickle::parse(std::as_bytes(std::span(part)), {.globals = torch_global_names()}), FormatError) << size;
  }
  expect_pickle_refused("K", "ends at byte 3, inside an opcode's argument.");
  expect_pickle_refused("X\xff\xff\xff\xff"s + "ab", "ends at byte 9, inside a string.");
  expect_pickle_refused("\x8e" + std::string(8, '\xff'), "ends at byte 11, inside a string.");
  expect_pickle_refused("\x8b\xff\xff\xff\x7f", "ends at byte 7, inside an int.");
  expect_pickle_refused("\x95\xff\0\0\0\0\0\0\0N."s, "has a frame that extends past its end.");
  expect_pickle_refused("cos\nsys", "ends inside the name of a global.");
  expect_pickle_refused("N", "ends at byte 3, inside its next opcode.");
}

TEST(Pickle, RefusesOpcodesOfOlderProtocols) {
  expect_pickle_refused("I1\n.", "has opcode 73 at byte 2, which torch.save does not write in protocols 2 to 5.");
}

TEST(Pickle, RejectsInvalidPrograms) {
  expect_pickle_refused(".", "pops from an empty stack, at byte 2.");
  expect_pickle_refused("N(\x85.", "pops from an empty stack, at byte 4.");
  expect_pickle_refused("t.", "pops a missing mark, at byte 2.");
  expect_pickle_refused("NN.", "leaves 1 values behind.");
  expect_pickle_refused("N.N", "goes on for 1 bytes after its end.");
  expect_pickle_refused("NNa.", "adds to something that is not a list, at byte 4.");
  expect_pickle_refused(")(Ne.", "adds to something that is not a list, at byte 5.");
  expect_pickle_refused("](N\x90.", "adds to something that is not a set, at byte 5.");
  expect_pickle_refused("(Ne.", "adds to something that is not a list, at byte 4.");
  expect_pickle_refused("NNNs.", "sets an item of something that is not a dict, at byte 5.");
  expect_pickle_refused("}(Nu.", "has a key without a value, at byte 5.");
  expect_pickle_refused("NNb.", "sets the attributes of None, at byte 4.");
  expect_pickle_refused("N)R.", "calls None, at byte 4.");
  expect_pickle_refused("ccollections\nOrderedDict\nNR.",
                        "calls collections.OrderedDict with arguments that are not a tuple.");
  expect_pickle_refused("ccollections\nOrderedDict\n]\x85R.", "builds an OrderedDict from arguments, as Python 2 did.");
  expect_pickle_refused("cbuiltins\nset\nN\x85R.", "builds a set from something that is not a list.");
  expect_pickle_refused("c_codecs\nencode\nX\1\0\0\0aX\5\0\0\0utf-8\x86R."s, "must encode bytes as latin1.");
  expect_pickle_refused("c_codecs\nencode\nX\3\0\0\0€X\6\0\0\0latin1\x86R."s,
                        "encodes a character that is not in latin1.");
  expect_pickle_refused("KK\x93.", "pops from an empty stack, at byte 4.");
  expect_pickle_refused("NN\x93.", "names a global with something other than a str, at byte 4.");
  expect_pickle_refused("h\1.", "gets memo 1, which was never stored.");
  expect_pickle_refused("X\1\0\0\0\xff."s, "has a str at byte 2 that is not UTF-8.");
}

TEST(Pickle, AllocatesNoMoreThanItsBytesCallFor) {
  expect_pickle_refused("Nr\xff\xff\xff\x7f.", "has a memo index out of range: 2147483647.");
  expect_pickle_refused("Nr\xff\0\0\0."s, "has a memo index out of range: 255.");
}

TEST(Pickle, RejectsCopyingOneValueRepeatedly) {
  // A list of a thousand, of which set() would make a thousand copies.
  const std::string list = "](" + std::string(1000, 'N') + "e\x85q\x01" + "0cbuiltins\nset\nq\x02"s + "0";
  std::string copies = "](";
  for (int i = 0; i < 1000; ++i) copies += "h\x02h\x01R";
  expect_pickle_refused(list + copies + "e.", "copies its own content over and over.");

  const std::string text = "X\xe8\x03\0\0"s + std::string(1000, 'a') + "X\6\0\0\0latin1"s + "\x86q\x01" + "0" +
                           "c_codecs\nencode\nq\x02" + "0";
  expect_pickle_refused(text + copies + "e.", "copies its own content over and over.");
}

TEST(Pickle, HasLimits) {
  expect_pickle_refused("(((N", "nests deeper than 2 levels.", {.max_depth = 2});
  expect_pickle_refused("NNN", "has more than 2 values on its stack.", {.max_stack = 2});
  expect_pickle_refused("]]]", "holds more than 2 objects.", {.max_objects = 2});
  expect_pickle_refused("N" + "q\0q\1q\2"s, "has a memo index out of range: 2.", {.max_memo = 2});
}

TEST(Pickle, NestsDeeplyWithoutRecursion) {
  const Parsed parsed = parse("N" + std::string(1'000'000, '\x85'));
  EXPECT_EQ(pickle_type_name(parsed.root()), "a tuple");
}

}  // namespace
}  // namespace easydel
