import Foundation
import JSONText
import SyncHTTP
import TestSupport
import Testing

/// The console in a browser, as an operator sees it.
struct ConsolePage: Sendable {
    let browser: Chromium
    /// The address of the operations listener.
    let address: String

    /// The size of the window.
    enum Size: String, CaseIterable {
        case phone = "360x740"
        case tablet = "768x1024"
        case desk = "1440x900"
    }

    enum Theme: String, CaseIterable { case light, dark }

    init(_ address: String) async throws {
        browser = try await Chromium()
        self.address = address
        // The page collects violations while the test continues.
        try await browser.call(
            "Page.addScriptToEvaluateOnNewDocument",
            """
            {"source":"addEventListener('securitypolicyviolation',\
            event=>(window.violations??=[]).push(event.violatedDirective+' '+event.blockedURI+' '+event.sourceFile))"}
            """
        )
    }

    /// The result of a JavaScript expression, as text.
    @discardableResult
    func evaluate(_ script: String) async throws -> String {
        let result = try await browser.call(
            "Runtime.evaluate",
            #"{"expression":\#(Self.quoted(script)),"awaitPromise":true,"returnByValue":true}"#
        )
        if let details = result["exceptionDetails"] {
            throw Failure("\(details.value(at: "/exception/description")?.string ?? details.text) in \(script)")
        }
        return result.value(at: "/result/value").map { $0.string ?? $0.text } ?? ""
    }

    /// The text of the first element that matches a selector; empty if no element matches.
    func text(_ selector: String) async throws -> String {
        try await evaluate("document.querySelector(\(Self.quoted(selector)))?.textContent ?? ''")
    }

    struct Failure: Error, CustomStringConvertible {
        let description: String
        init(_ description: String) { self.description = description }
    }

    /// Waits until an expression is true on the page.
    func reaches(_ expression: String) async throws {
        try await waitUntil("the page reaches \(expression)", every: .milliseconds(20)) {
            // during navigation, no expression can be evaluated
            (try? await evaluate("Boolean(\(expression))")) == "true"
        }
    }

    // MARK: - An operator's actions

    /// Navigates to an address of the console, and waits until the page is drawn.
    func open(_ path: String) async throws {
        try await browser.call("Page.navigate", #"{"url":\#(Self.quoted(address + path))}"#)
        try await reaches("location.pathname + location.search === \(Self.quoted(path)) && \(Self.isDrawn)")
    }

    /// Whether a page with all its content is shown.
    static let isDrawn = """
        document.querySelector('h1') && !document.querySelector('[aria-busy=true], .loading') \
        && (document.querySelector('.sign-in') || document.querySelector('.body')?.childElementCount > 0)
        """

    /// Signs in at the current address, using only the keyboard.
    func signIn(_ token: String = LiveOperator.token) async throws {
        try await reaches("document.querySelector('.sign-in')")
        try await tab(to: "it.name === 'token'")
        try await type(token)
        try await press("Enter")
        try await reaches("document.querySelector('.bar') && \(Self.isDrawn)")
    }

    func show(_ size: Size, _ theme: Theme) async throws {
        let sides = size.rawValue.split(separator: "x")
        try await browser.call(
            "Emulation.setDeviceMetricsOverride",
            #"{"width":\#(sides[0]),"height":\#(sides[1]),"deviceScaleFactor":1,"mobile":false}"#
        )
        try await browser.call(
            "Emulation.setEmulatedMedia",
            #"{"features":[{"name":"prefers-color-scheme","value":"\#(theme.rawValue)"}]}"#
        )
        try await evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done())))")
    }

    /// Types a text into the focused element.
    func type(_ text: String) async throws {
        try await browser.call("Input.insertText", #"{"text":\#(Self.quoted(text))}"#)
    }

    /// Presses a key: a character, or a name such as `Tab`.
    func press(_ key: String, shift: Bool = false) async throws {
        let codes = ["Tab": 9, "Enter": 13, "Escape": 27, "Space": 32]
        let text = ["Enter": "\r", "Space": " "][key] ?? (key.count == 1 ? key : "")
        let name = key == "Space" ? " " : key
        let common = """
            "key":\(Self.quoted(name)),"code":\(Self.quoted(key)),"windowsVirtualKeyCode":\(codes[key] ?? 0),\
            "modifiers":\(shift ? 8 : 0)
            """
        let kind = text.isEmpty ? "rawKeyDown" : "keyDown"
        let down = #"{"type":"\#(kind)","text":\#(Self.quoted(text)),\#(common)}"#
        try await browser.call("Input.dispatchKeyEvent", down)
        try await browser.call("Input.dispatchKeyEvent", #"{"type":"keyUp",\#(common)}"#)
    }

    /// Presses Tab until the focused element matches an expression on `it`.
    func tab(to expression: String) async throws {
        for _ in 0..<200 {
            if try await evaluate("(it => Boolean(\(expression)))(document.activeElement)") == "true" { return }
            try await press("Tab")
        }
        throw Failure("Tab never reaches \(expression)")
    }

    /// A screenshot of the page, as WebP.
    func picture() async throws -> Data {
        let answer = try await browser.call("Page.captureScreenshot", #"{"format":"webp","quality":60}"#)
        return Data(base64Encoded: answer["data"]?.string ?? "") ?? Data()
    }

    // MARK: - Errors

    /// Returns the browser's errors since the last call: errors of scripts, violations of the content security policy,
    /// and dialogs. Rejected requests are excluded, because pages show them to users.
    func complaints() async throws -> [String] {
        let thrown = try browser.events(of: "Runtime.exceptionThrown").map(\.text)
        let said = try browser.events(of: "Runtime.consoleAPICalled")
            .filter { ["error", "warning", "assert"].contains($0["type"]?.string) }.map(\.text)
        let logged = try browser.events(of: "Log.entryAdded").compactMap { $0["entry"] }
            .filter { $0["level"]?.string == "error" && $0["source"]?.string != "network" }.map(\.text)
        let dialogs = try browser.events(of: "Page.javascriptDialogOpening").map(\.text)
        let violations = try await evaluate("(window.violations ?? []).join('; ')")
        return thrown + said + logged + dialogs + (violations.isEmpty ? [] : [violations])
    }

    /// A text as a JavaScript and JSON string.
    static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"", "\\": quoted += "\\\(scalar)"
            case "\u{20}"..."\u{7e}": quoted.unicodeScalars.append(scalar)
            default: for unit in String(scalar).utf16 { quoted += "\\u" + String(format: "%04x", unit) }
            }
        }
        return quoted + "\""
    }
}
