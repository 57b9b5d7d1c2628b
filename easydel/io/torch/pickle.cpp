#include "easydel/io/torch/pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"
#include "easydel/io/byte_reader.h"
#include "easydel/io/torch/pickle_opcodes.h"

namespace easydel {
namespace {

using namespace pickle;

constexpr std::string_view kOrderedDict = "collections.OrderedDict";
constexpr std::string_view kEncode = "_codecs.encode";  // how protocol 2 spells bytes
constexpr std::string_view kSet = "builtins.set";
constexpr std::string_view kFrozenSetName = "builtins.frozenset";
constexpr std::array kPlain = {kOrderedDict, kEncode, kSet, kFrozenSetName};

// Text from the file for messages: short, and without control characters.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 200));
  std::replace_if(out.begin(), out.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text.size() > 200 ? out + "…" : out;
}

}  // namespace

std::string_view pickle_type_name(const PickleValue& value) {
  static constexpr std::array<std::string_view, 8> kNames = {"None",   "a bool", "an int", "a float",
                                                             "an int", "a str",  "bytes",  "a class or function"};
  if (value.index() < kNames.size()) return kNames[value.index()];
  if (held<PickleDict>(value)) return "a dict";
  if (held<PickleCall>(value)) return "an object";
  if (held<PicklePersistent>(value)) return "a persistent object";
  static constexpr std::array<std::string_view, 3> kSequences = {"a tuple", "a list", "a set"};
  return kSequences[static_cast<std::size_t>(held<PickleSequence>(value)->kind)];
}

// The stack machine that executes a pickle.
class Unpickler {
 public:
  Unpickler(std::span<const std::byte> bytes, const PickleOptions& options, Pickle& out)
      : size_(bytes.size()), reader_(bytes, options.where, "pickle"), options_(options), out_(out) {}

  void run() {
    const auto first = reader_.read<uint8_t>("its first opcode");
    const int protocol = first == kProto ? reader_.read<uint8_t>("its protocol") : 0;
    check(protocol >= 2 && protocol <= 5, "must have protocol 2 to 5; got ",
          first == kProto ? concat(protocol) : "none", ".");
    empty_tuple_ = new_sequence(PickleSequence::Kind::Tuple);
    while (true) {
      op_at_ = reader_.position();
      op_ = reader_.read<uint8_t>("its next opcode");
      if (op_ == kStop) break;
      step();
    }
    out_.root_ = pop();
    check(stack_.empty() && marks_.empty(), "leaves ", stack_.size(), " values behind.");
    check(reader_.remaining() == 0, "goes on for ", reader_.remaining(), " bytes after its end.");
  }

 private:
  using Kind = PickleSequence::Kind;

  void step() {
    switch (op_) {
      case kMark: return mark();
      case kPop: return drop();
      case kPopMark: return stack_.resize(pop_mark());
      case kNone: return push(PickleNone{});
      case kNewTrue: return push(true);
      case kNewFalse: return push(false);
      case kBinInt: return push(int64_t{read<int32_t>()});
      case kBinInt1: return push(int64_t{read<uint8_t>()});
      case kBinInt2: return push(int64_t{read<uint16_t>()});
      case kLong1: return push_long(read<uint8_t>());
      case kLong4: return push_long(read<uint32_t>());
      case kBinFloat: return push_float();
      case kShortBinUnicode: return push_str(read<uint8_t>());
      case kBinUnicode: return push_str(read<uint32_t>());
      case kBinUnicode8: return push_str(read<uint64_t>());
      case kShortBinBytes: return push(PickleBytes{text(read<uint8_t>())});
      case kBinBytes: return push(PickleBytes{text(read<uint32_t>())});
      case kBinBytes8:
      case kByteArray8: return push(PickleBytes{text(read<uint64_t>())});
      case kEmptyTuple: return push(empty_tuple_);
      case kEmptyList: return push(new_sequence(Kind::List));
      case kEmptySet: return push(new_sequence(Kind::Set));
      case kEmptyDict: return push(new_dict());
      case kTuple: return push_marked(Kind::Tuple);
      case kTuple1: return push_top(1);
      case kTuple2: return push_top(2);
      case kTuple3: return push_top(3);
      case kFrozenSet: return push_marked(Kind::Set);
      case kAppend: return add_items(Kind::List, floor_of_last(1));
      case kAppends: return add_items(Kind::List, pop_mark());
      case kAddItems: return add_items(Kind::Set, pop_mark());
      case kSetItem: return set_items(floor_of_last(2));
      case kSetItems: return set_items(pop_mark());
      case kGlobal: return push_line_global();
      case kStackGlobal: return push_stack_global();
      case kReduce:
      case kNewObj: return call();
      case kBuild: return build();
      case kBinPersid: return push_persistent();
      case kBinGet: return push_memo(read<uint8_t>());
      case kLongBinGet: return push_memo(read<uint32_t>());
      case kBinPut: return put(read<uint8_t>());
      case kLongBinPut: return put(read<uint32_t>());
      case kMemoize: return put(memo_count_);
      case kFrame: return check(read<uint64_t>() <= reader_.remaining(), "has a frame that extends past its end.");
      default:
        bad("has opcode ", static_cast<int>(op_), " at byte ", op_at_,
            ", which torch.save does not write in protocols 2 to 5.");
    }
  }

  // --- the bytes
  template <class T>
  T read() {
    return reader_.read<T>("an opcode's argument");
  }
  std::string_view text(uint64_t size) { return reader_.text(size, "a string"); }
  std::string_view line() {
    const std::string_view rest = reader_.rest();
    const std::size_t end = rest.find('\n');
    check(end != std::string_view::npos, "ends inside the name of a global.");
    return reader_.text(end + 1, "a name").substr(0, end);
  }

  // --- the stack
  void push(PickleValue value) {
    check(stack_.size() < options_.max_stack, "has more than ", options_.max_stack, " values on its stack.");
    stack_.push_back(value);
  }
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::size_t floor_of_last(std::size_t count) {
    check(stack_.size() - floor() >= count, "pops from an empty stack, at byte ", op_at_, ".");
    return stack_.size() - count;
  }
  PickleValue& top() { return stack_[floor_of_last(1)]; }
  PickleValue pop() {
    const PickleValue value = top();
    stack_.pop_back();
    return value;
  }
  void drop() {  // CPython lets POP pop a mark
    if (!marks_.empty() && stack_.size() == marks_.back()) return marks_.pop_back();
    pop();
  }
  void mark() {
    check(marks_.size() < options_.max_depth, "nests deeper than ", options_.max_depth, " levels.");
    marks_.push_back(stack_.size());
  }
  std::size_t pop_mark() {
    check(!marks_.empty(), "pops a missing mark, at byte ", op_at_, ".");
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }

  // --- values
  void push_long(uint64_t size) {
    const std::string_view digits = reader_.text(size, "an int");
    if (digits.size() > 8) return push(PickleLong{digits});
    uint64_t bits = !digits.empty() && (digits.back() & 0x80) ? ~uint64_t{0} : 0;
    std::memcpy(&bits, digits.data(), digits.size());
    push(static_cast<int64_t>(bits));
  }
  void push_float() {  // the one number that a pickle holds in big-endian order
    push(std::bit_cast<double>(__builtin_bswap64(read<uint64_t>())));
  }
  void push_str(uint64_t size) {
    const std::string_view str = text(size);
    check(invalid_utf8(str) == std::string_view::npos, "has a str at byte ", op_at_, " that is not UTF-8.");
    push(PickleStr{str});
  }

  // --- containers
  void count_object() {
    check(++objects_ <= options_.max_objects, "holds more than ", options_.max_objects, " objects.");
  }
  // Copying what the memo returns repeatedly would be quadratic; valid pickles write out each copy.
  void count_copied(std::size_t amount) {
    copied_ += amount;
    check(copied_ <= size_, "copies its own content over and over.");
  }
  PickleSequence* new_sequence(Kind kind) {
    count_object();
    return &out_.sequences_.emplace_back(PickleSequence{kind, {}});
  }
  PickleDict* new_dict() {
    count_object();
    return &out_.dicts_.emplace_back();
  }
  void push_sequence(Kind kind, std::size_t from) {
    PickleSequence* sequence = new_sequence(kind);
    sequence->items.assign(stack_.begin() + from, stack_.end());
    stack_.resize(from);
    push(sequence);
  }
  void push_marked(Kind kind) { push_sequence(kind, pop_mark()); }
  void push_top(std::size_t count) { push_sequence(Kind::Tuple, floor_of_last(count)); }
  void add_items(Kind kind, std::size_t from) {
    const PickleSequence* target = from > floor() ? held<PickleSequence>(stack_[from - 1]) : nullptr;
    check(target && target->kind == kind, "adds to something that is not a ", kind == Kind::List ? "list" : "set",
          ", at byte ", op_at_, ".");
    auto& items = const_cast<PickleSequence*>(target)->items;
    items.insert(items.end(), stack_.begin() + from, stack_.end());
    stack_.resize(from);
  }
  void set_items(std::size_t from) {
    const PickleDict* target = from > floor() ? held<PickleDict>(stack_[from - 1]) : nullptr;
    check(target, "sets an item of something that is not a dict, at byte ", op_at_, ".");
    check((stack_.size() - from) % 2 == 0, "has a key without a value, at byte ", op_at_, ".");
    auto& items = const_cast<PickleDict*>(target)->items;
    for (std::size_t i = from; i < stack_.size(); i += 2) items.emplace_back(stack_[i], stack_[i + 1]);
    stack_.resize(from);
  }

  // --- what Python would execute
  void push_global(std::string_view module, std::string_view name) {
    if (module == "__builtin__") module = "builtins";
    const auto is_it = [&](std::string_view known) {
      return known.size() == module.size() + 1 + name.size() && known.starts_with(module) &&
             known[module.size()] == '.' && known.ends_with(name);
    };
    for (const auto known : {std::span<const std::string_view>(kPlain), options_.globals}) {
      const auto it = std::find_if(known.begin(), known.end(), is_it);
      if (it != known.end()) return push(PickleGlobal{*it});
    }
    bad("calls ", shown(module), ".", shown(name), "; only tensors and plain containers are read.");
  }
  void push_line_global() {
    const std::string_view module = line();
    push_global(module, line());
  }
  void push_stack_global() {
    const PickleValue name = pop(), module = pop();
    const auto* name_str = held<PickleStr>(name);
    const auto* module_str = held<PickleStr>(module);
    check(name_str && module_str, "names a global with something other than a str, at byte ", op_at_, ".");
    push_global(module_str->text, name_str->text);
  }
  void call() {
    const PickleValue arguments = pop(), callee = pop();
    const auto* global = held<PickleGlobal>(callee);
    check(global, "calls ", pickle_type_name(callee), ", at byte ", op_at_, ".");
    const PickleSequence* tuple = held<PickleSequence>(arguments);
    check(tuple && tuple->kind == Kind::Tuple, "calls ", global->name, " with arguments that are not a tuple.");
    if (global->name == kOrderedDict) {
      check(tuple->items.empty(), "builds an OrderedDict from arguments, as Python 2 did.");
      return push(new_dict());
    }
    if (global->name == kSet || global->name == kFrozenSetName) return push_set(*tuple);
    if (global->name == kEncode) return push_encoded(*tuple);
    count_object();
    push(&out_.calls_.emplace_back(PickleCall{global->name, tuple}));
  }
  void push_set(const PickleSequence& arguments) {
    const PickleSequence* source = arguments.items.size() == 1 ? held<PickleSequence>(arguments.items[0]) : nullptr;
    check(source || arguments.items.empty(), "builds a set from something that is not a list.");
    PickleSequence* set = new_sequence(Kind::Set);
    if (source) {
      count_copied(source->items.size());
      set->items = source->items;
    }
    push(set);
  }
  void push_encoded(const PickleSequence& arguments) {
    const auto* str = arguments.items.size() == 2 ? held<PickleStr>(arguments.items[0]) : nullptr;
    const auto* codec = str ? held<PickleStr>(arguments.items[1]) : nullptr;
    check(codec && (codec->text == "latin1" || codec->text == "latin-1"), "must encode bytes as latin1.");
    count_copied(str->text.size());
    std::string bytes;
    for (std::size_t i = 0; i < str->text.size(); ++i) {
      const auto lead = static_cast<unsigned char>(str->text[i]);
      check(lead < 0xc4, "encodes a character that is not in latin1.");
      if (lead < 0x80) bytes += static_cast<char>(lead);
      if (lead >= 0x80) bytes += static_cast<char>((lead << 6) | (str->text[++i] & 0x3f));
    }
    push(PickleBytes{out_.texts_.emplace_back(std::move(bytes))});
  }
  void build() {  // an OrderedDict's attributes, such as a state dict's _metadata, are dropped
    pop();
    check(held<PickleDict>(top()), "sets the attributes of ", pickle_type_name(top()), ", at byte ", op_at_, ".");
  }
  void push_persistent() {
    const PickleValue id = pop();
    count_object();
    push(&out_.persistents_.emplace_back(PicklePersistent{id}));
  }

  // --- the memo
  void put(uint64_t index) {
    // A valid index counts earlier puts, each of which took at least a byte.
    check(index < options_.max_memo && index < reader_.position(), "has a memo index out of range: ", index, ".");
    if (index >= memo_.size()) memo_.resize(index + 1);
    if (!memo_[index]) ++memo_count_;
    memo_[index] = top();
  }
  void push_memo(uint64_t index) {
    check(index < memo_.size() && memo_[index], "gets memo ", index, ", which was never stored.");
    push(*memo_[index]);
  }

  template <class... Parts>
  [[noreturn]] void bad(const Parts&... parts) const {
    fail<FormatError>("[", options_.where, "] the pickle ", parts...);
  }
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    if (!condition) [[unlikely]]
      bad(parts...);
  }

  std::size_t size_;
  ByteReader reader_;
  const PickleOptions& options_;
  Pickle& out_;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::vector<std::optional<PickleValue>> memo_;
  std::size_t memo_count_ = 0;
  std::size_t objects_ = 0;
  std::size_t copied_ = 0;
  const PickleSequence* empty_tuple_ = nullptr;
  std::size_t op_at_ = 0;
  uint8_t op_ = 0;
};

Pickle Pickle::parse(std::span<const std::byte> bytes, const PickleOptions& options) {
  Pickle pickle;
  Unpickler(bytes, options, pickle).run();
  return pickle;
}

}  // namespace easydel
