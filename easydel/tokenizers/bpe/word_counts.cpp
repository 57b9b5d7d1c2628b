#include "easydel/tokenizers/bpe/word_counts.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <random>
#include <thread>

#include "easydel/core/error.h"
#include "easydel/core/text/utf8.h"

namespace easydel {
namespace {

constexpr std::size_t kArenaBlock = std::size_t{1} << 20;
constexpr std::size_t kReadBlock = std::size_t{2} << 20;

uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t hash_of(std::string_view word, uint64_t seed) {
  const auto load = [](const char* at, std::size_t size) {
    uint64_t value = 0;
    std::memcpy(&value, at, size);
    return value;
  };
  uint64_t hash = seed ^ word.size();
  while (word.size() > 8) {
    hash = mix(hash ^ load(word.data(), 8), 0x9E3779B97F4A7C15);
    word.remove_prefix(8);
  }
  return mix(hash ^ load(word.data(), word.size()), 0xD6E8FEB86659FD93 ^ seed);
}

uint64_t random_seed() {  // no corpus can be crafted whose words all collide
  static const uint64_t seed = (uint64_t{std::random_device{}()} << 32 | std::random_device{}()) | 1;
  return seed;
}

}  // namespace

WordCounts::WordCounts() : seed_(random_seed()), slots_(1024) {}

std::string_view WordCounts::keep(std::string_view word) {
  if (word.size() > block_left_) {
    const std::size_t size = std::max(kArenaBlock, word.size());
    blocks_.push_back(std::make_unique_for_overwrite<char[]>(size));
    block_left_ = size;
    if (word.size() == size) {  // a separate block
      std::memcpy(blocks_.back().get(), word.data(), word.size());
      block_left_ = 0;
      return {blocks_.back().get(), word.size()};
    }
  }
  char* const place = blocks_.back().get() + (kArenaBlock - block_left_);
  std::memcpy(place, word.data(), word.size());
  block_left_ -= word.size();
  return {place, word.size()};
}

void WordCounts::grow() {
  slots_.assign(slots_.size() * 2, {});
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t i = 0; i < words_.size(); ++i) {
    std::size_t at = hashes_[i] & mask;
    while (slots_[at].index != 0) at = (at + 1) & mask;
    slots_[at] = {static_cast<uint32_t>(hashes_[i] >> 32), static_cast<uint32_t>(i + 1)};
  }
}

void WordCounts::add(std::string_view word, uint64_t count) {
  const uint64_t hash = hash_of(word, seed_);
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  std::size_t at = hash & mask;
  for (; slots_[at].index != 0; at = (at + 1) & mask) {
    if (slots_[at].tag != tag) continue;
    Word& known = words_[slots_[at].index - 1];
    if (known.text == word) {
      known.count += count;
      return;
    }
  }
  require<Error>(words_.size() < UINT32_MAX - 1, "[train_byte_level_bpe] more than four billion distinct words.");
  words_.push_back({keep(word), count});
  hashes_.push_back(hash);
  slots_[at] = {tag, static_cast<uint32_t>(words_.size())};
  if (words_.size() * 3 > slots_.size() * 2) grow();
}

void WordCounts::add(const WordCounts& others) {
  for (const Word& word : others.words_) add(word.text, word.count);
}

namespace {

struct Block {
  std::string text;
  std::vector<std::size_t> ends;  // of the texts in it; none: it contains lines
  std::string where;              // for errors
  uint64_t begin = 0;             // of this block in the file
};

void count_block(const Block& block, const SplitText& split, std::vector<std::string_view>& words, WordCounts& counts) {
  const std::string_view text = block.text;
  const std::size_t bad = invalid_utf8(text);
  require<FormatError>(bad == std::string_view::npos, "[train_byte_level_bpe] ", block.where,
                       " is not valid UTF-8 at byte ", block.begin + bad, ". Convert it, for instance with iconv.");
  std::size_t next_end = 0;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end;
    if (block.ends.empty()) {
      const std::size_t line = text.find('\n', at);
      end = line == std::string_view::npos ? text.size() : line + 1;
    } else {
      end = block.ends[next_end++];
    }
    words.clear();
    split(text.substr(at, end - at), words);
    for (const std::string_view word : words) counts.add(word);
    at = end;
  }
}

// Reads on this thread and counts on others.
class Counting {
 public:
  Counting(const std::string& pattern, int threads) {
    for (int i = 0; i < threads; ++i) splitters_.push_back(make_splitter(pattern));  // errors show up here
    counts_.resize(static_cast<std::size_t>(threads));
  }

  WordCounts run(const std::function<bool(Block&)>& read) {
    if (splitters_.size() == 1) {
      std::vector<std::string_view> words;
      for (Block block; read(block); block = {}) count_block(block, splitters_[0], words, counts_[0]);
      return std::move(counts_[0]);
    }
    std::vector<std::thread> threads;
    threads.reserve(splitters_.size());
    try {
      for (std::size_t i = 0; i < splitters_.size(); ++i) threads.emplace_back([this, i] { work(i); });
      for (Block block; read(block) && put(std::move(block)); block = {}) {
      }
    } catch (...) {
      stop(std::current_exception());
    }
    stop(nullptr);
    for (std::thread& thread : threads) thread.join();
    if (problem_) std::rethrow_exception(problem_);
    for (std::size_t i = 1; i < counts_.size(); ++i) {
      counts_[0].add(counts_[i]);
      counts_[i] = WordCounts();
    }
    return std::move(counts_[0]);
  }

 private:
  bool put(Block block) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return queue_.size() < 2 * splitters_.size() || problem_; });
    if (problem_) return false;
    queue_.push_back(std::move(block));
    changed_.notify_all();
    return true;
  }
  void stop(const std::exception_ptr& problem) {
    const std::lock_guard lock(mutex_);
    if (problem && !problem_) problem_ = problem;
    done_ = true;
    changed_.notify_all();
  }
  void work(std::size_t i) {
    std::vector<std::string_view> words;
    try {
      while (true) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return !queue_.empty() || done_; });
        if (queue_.empty() || problem_) return;
        const Block block = std::move(queue_.front());
        queue_.pop_front();
        changed_.notify_all();
        lock.unlock();
        count_block(block, splitters_[i], words, counts_[i]);
      }
    } catch (...) {
      stop(std::current_exception());
    }
  }

  std::vector<SplitText> splitters_;
  std::vector<WordCounts> counts_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block> queue_;
  std::exception_ptr problem_;
  bool done_ = false;
};

// Blocks of complete lines; a line longer than a block gets a separate one.
class Lines {
 public:
  Lines(const std::vector<std::filesystem::path>& files, Progress& progress) : files_(files), progress_(progress) {}

  bool next(Block& block) {
    block.text.swap(rest_);
    rest_.clear();
    std::size_t searched = 0;
    while (true) {
      if (file_ && block.text.size() >= kReadBlock) {
        const std::size_t line = std::string_view(block.text).substr(searched).rfind('\n');
        if (line != std::string::npos) {
          const std::size_t end = searched + line + 1;
          rest_.assign(block.text, end);
          block.text.resize(end);
          return finish(block);
        }
        searched = block.text.size();
      }
      if (!file_ && next_ == files_.size()) return !block.text.empty() && finish(block);
      if (!file_) open();
      const std::size_t size = block.text.size();
      block.text.resize(size + kReadBlock);
      const std::size_t got = std::fread(block.text.data() + size, 1, kReadBlock, file_.get());
      const int code = errno;
      block.text.resize(size + got);
      require<IoError>(!std::ferror(file_.get()), "[", name_, "] cannot be read: ", errno_text(code), ".");
      progress_.advance(static_cast<int64_t>(got));
      if (got == kReadBlock) continue;
      file_.reset();  // the end of a file is the end of its last line
      if (!block.text.empty()) return finish(block);
    }
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void open() {
    name_ = files_[next_++].string();
    file_.reset(std::fopen(name_.c_str(), "rbe"));
    require<IoError>(file_ != nullptr, "[", name_, "] cannot be opened: ", errno_text(errno), ".");
    std::setvbuf(file_.get(), nullptr, _IONBF, 0);
    at_ = 0;
  }
  bool finish(Block& block) {
    block.where = name_;
    block.begin = at_;
    at_ += block.text.size();
    return true;
  }

  const std::vector<std::filesystem::path>& files_;
  Progress& progress_;
  std::size_t next_ = 0;
  std::unique_ptr<std::FILE, Close> file_;
  std::string name_, rest_;
  uint64_t at_ = 0;
};

}  // namespace

WordCounts count_words(const std::vector<std::filesystem::path>& files, const std::string& pattern, int threads,
                       Progress& progress) {
  Lines lines(files, progress);
  return Counting(pattern, threads).run([&](Block& block) { return lines.next(block); });
}

WordCounts count_words(const NextText& next, const std::string& pattern, int threads, Progress& progress) {
  uint64_t texts = 0;
  return Counting(pattern, threads).run([&](Block& block) {
    block.where = concat("the input from text ", texts, " on");
    for (std::string text; block.text.size() < kReadBlock && next(text); text.clear(), ++texts) {
      progress.advance(static_cast<int64_t>(text.size()));
      if (text.empty()) continue;
      block.text += text;
      block.ends.push_back(block.text.size());
    }
    return !block.text.empty();
  });
}

}  // namespace easydel
