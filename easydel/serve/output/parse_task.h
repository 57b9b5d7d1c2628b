// Coroutines that read text which arrives in pieces. A parser is written as if all of the text were there; where it is
// not, co_await waits for the next piece. So what a parser does cannot depend on where the pieces were cut.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace easydel::serve {

class ParseInput {
 public:
  std::string text;
  std::size_t at = 0;  // the next byte to read; going back is allowed to where nothing was forgotten
  bool ended = false;

  std::string_view since(std::size_t mark) const { return std::string_view(text).substr(mark, at - mark); }
  // Drops what was read, now and then. Marks taken before are invalid afterwards.
  void forget() {
    if (at < kForgetAfter) return;
    text.erase(0, at);
    at = 0;
  }
  // Resumes the coroutine that waits, until more text is needed.
  void run() {
    while (true) {
      if (!ready_) {
        if (!waiting_ || !can_read()) return;
        ready_ = std::exchange(waiting_, {});
      }
      std::exchange(ready_, {}).resume();
    }
  }
  void set_ready(std::coroutine_handle<> handle) { ready_ = handle; }

  // The next byte without consuming it; -1 at the end.
  auto peek() {
    struct Awaiter {
      ParseInput& input;
      bool await_ready() const { return input.can_read(); }
      void await_suspend(std::coroutine_handle<> handle) const { input.waiting_ = handle; }
      int await_resume() const {
        return input.at < input.text.size() ? static_cast<unsigned char>(input.text[input.at]) : -1;
      }
    };
    return Awaiter{*this};
  }

 private:
  static constexpr std::size_t kForgetAfter = 4096;
  bool can_read() const { return at < text.size() || ended; }

  std::coroutine_handle<> waiting_;  // for text
  std::coroutine_handle<> ready_;    // what it awaited is there
};

// A parser or a part of one; starts when awaited. The innermost one waits for text, and ParseInput::run resumes it and
// then its callers one after the other, so that the stack is never deeper than the calls.
template <class T>
class ParseTask {
  struct PromiseBase {
    ParseInput* input = nullptr;
    std::coroutine_handle<> caller;
    std::exception_ptr error;

    std::suspend_always initial_suspend() const noexcept { return {}; }
    auto final_suspend() const noexcept {
      struct Awaiter {
        const PromiseBase& promise;
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<>) const noexcept {
          if (promise.caller) promise.input->set_ready(promise.caller);
        }
        void await_resume() const noexcept {}
      };
      return Awaiter{*this};
    }
    void unhandled_exception() { error = std::current_exception(); }
  };
  struct ValuePromise : PromiseBase {
    std::optional<T> value;
    void return_value(T result) { value = std::move(result); }
    ParseTask get_return_object();
    T take() { return std::move(*value); }
  };

 public:
  using promise_type = ValuePromise;

  explicit ParseTask(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  ParseTask(ParseTask&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  ParseTask& operator=(ParseTask&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~ParseTask() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const { return false; }
  // Runs at once; the caller goes on without a pause if no text was missing.
  template <class Promise>
  bool await_suspend(std::coroutine_handle<Promise> caller) {
    handle_.promise().input = caller.promise().input;
    handle_.resume();
    if (handle_.done()) return false;
    handle_.promise().caller = caller;
    return true;
  }
  T await_resume() {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return handle_.promise().take();
  }

  // For the outermost one.
  void start(ParseInput& input) {
    handle_.promise().input = &input;
    input.set_ready(handle_);
  }
  void rethrow() const {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

template <class T>
ParseTask<T> ParseTask<T>::ValuePromise::get_return_object() {
  return ParseTask<T>(std::coroutine_handle<ValuePromise>::from_promise(*this));
}

}  // namespace easydel::serve
