/// Accessibility checks for every page, as a script that returns one violation per line. It checks the rules of WCAG
/// 2.2 AA that can be checked automatically.
enum ConsoleChecks {
    static let script = #"""
        (() => {
          const amiss = []
          const name = element => element.tagName.toLowerCase() + (element.className?.trim?.() ? '.' + element.className.trim().replaceAll(' ', '.') : '')
            + ' “' + (element.textContent ?? '').trim().slice(0, 40) + '”'
          const all = selector => [...document.querySelectorAll(selector)]
          const isSeen = element => element.checkVisibility({ visibilityProperty: true }) && !element.closest('.unheard, .skip')
            && element.getBoundingClientRect().width > 0
          const flaw = (rule, element) => amiss.push(rule + ': ' + (element ? name(element) : ''))

          // the document, its landmarks and headings
          if (document.documentElement.lang !== 'en') flaw('no lang')
          if (!document.title.includes('Sluice')) flaw('no title')
          for (const landmark of ['main', 'header']) if (all(landmark).filter(isSeen).length !== 1) flaw('not one ' + landmark)
          for (const nav of all('nav')) if (!nav.ariaLabel) flaw('a nav without a label', nav)
          if (all('nav.pages [aria-current=page]').length !== 1) flaw('no current page in the navigation')
          const headings = all('h1, h2, h3, h4').filter(isSeen)
          if (headings.filter(each => each.tagName === 'H1').length !== 1) flaw('not one h1')
          headings.reduce((before, heading) => {
            const level = Number(heading.tagName[1])
            if (level > before + 1) flaw('a heading leaves out a level', heading)
            return level
          }, 0)

          // names, ids and references to them
          for (const control of all('a[href], button, input, select, textarea, summary').filter(isSeen)) {
            const labels = [...(control.labels ?? [])].map(each => each.textContent).join('')
            const own = /^(INPUT|SELECT|TEXTAREA)$/.test(control.tagName) ? '' : control.textContent
            if (!(labels + own + (control.ariaLabel ?? '')).trim()) flaw('a control without a name', control)
          }
          for (const image of all('svg')) {
            const hasName = image.getAttribute('role') === 'img' && image.ariaLabel
            if (!hasName && image.getAttribute('aria-hidden') !== 'true') flaw('an image without a name', image.parentElement)
          }
          const ids = all('[id]').map(each => each.id)
          for (const id of new Set(ids)) if (ids.filter(each => each === id).length > 1) flaw('an id twice: ' + id)
          for (const attribute of ['aria-labelledby', 'aria-describedby', 'for']) {
            for (const element of all(`[${attribute}]`)) for (const id of element.getAttribute(attribute).split(' ')) {
              if (!ids.includes(id)) flaw(`${attribute} leads nowhere`, element)
            }
          }
          for (const cell of all('thead th')) if (cell.scope !== 'col' || !cell.textContent.trim()) flaw('a column without a name', cell.closest('table'))
          for (const region of all('.json, .scroll[tabindex]')) if (!region.ariaLabel) flaw('a place to scroll without a name', region)

          // contrast
          const channels = text => {
            const numbers = text.match(/[\d.]+(e-\d+)?/g).map(Number)
            if (text.startsWith('color(srgb')) return [...numbers.slice(0, 3).map(each => each * 255), numbers[3] ?? 1]
            return [...numbers.slice(0, 3), numbers[3] ?? 1]
          }
          const over = (top, under) => [0, 1, 2].map(index => top[index] * top[3] + under[index] * (1 - top[3]))
          const ground = element => {
            const layers = []
            for (let each = element; each; each = each.parentElement) {
              const layer = channels(getComputedStyle(each).backgroundColor)
              if (layer[3] > 0) layers.unshift(layer)
              if (layer[3] === 1) break
            }
            return layers.reduce((under, top) => [...over(top, under), 1], [255, 255, 255, 1])
          }
          const light = color => {
            const [r, g, b] = color.slice(0, 3).map(each => each / 255).map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
            return 0.2126 * r + 0.7152 * g + 0.0722 * b
          }
          const contrast = (one, other) => {
            const [more, less] = [light(one), light(other)].sort((a, b) => b - a)
            return (more + 0.05) / (less + 0.05)
          }
          const seen = new Set()
          const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
          for (let node = walker.nextNode(); node; node = walker.nextNode()) {
            const element = node.parentElement
            if (!node.data.trim() || seen.has(element)) continue
            seen.add(element)
            if (!isSeen(element) || element.closest(':disabled, svg, noscript')) continue
            const style = getComputedStyle(element), under = ground(element)
            const size = parseFloat(style.fontSize), isLarge = size >= 24 || size >= 18.66 && style.fontWeight >= 700
            const found = contrast(over(channels(style.color), under), under)
            if (found < (isLarge ? 3 : 4.5)) flaw(`contrast ${found.toFixed(2)}`, element)
          }
          for (const field of all('input, select, textarea').filter(isSeen)) {
            if (field.disabled) continue
            const found = contrast(channels(getComputedStyle(field).borderTopColor), ground(field.parentElement))
            if (field.type !== 'checkbox' && found < 3) flaw(`border contrast ${found.toFixed(2)}`, field.parentElement)
          }

          // texts and numbers
          const singular = /\b1 (failed )?(mutations|conflicts|users|lanes|upstreams|devices|organizations)\b/
          const text = all('main').map(each => each.innerText).join(' ').replaceAll(/\s+/g, ' ')
          if (singular.test(text)) flaw('a plural of one: ' + singular.exec(text)[0])
          if (location.pathname === '/console/lanes') {
            for (const cell of all('tbody td')) if (/^[–0]$/.test(cell.textContent.trim())) flaw('a cell without content', cell)
          }

          // room
          for (const button of innerWidth > 900 ? all('main button, main a.button').filter(isSeen) : []) {
            const range = document.createRange()
            range.selectNodeContents(button)
            if (button.getBoundingClientRect().width > range.getBoundingClientRect().width + 80) flaw('a button that stretches', button)
          }
          for (const tab of all('.tabs [aria-current]')) {
            const { left, right } = tab.getBoundingClientRect()
            if (left < 0 || right > innerWidth) flaw('the current tab is out of sight', tab)
          }
          const surplus = document.documentElement.scrollWidth - document.documentElement.clientWidth
          if (surplus > 0) {
            const culprits = all('body *').filter(each => each.getBoundingClientRect().right > innerWidth + 1 && !each.closest('.scroll, .tabs, .json'))
            flaw(`${surplus} pixels too wide`, culprits.at(-1))
          }
          for (const button of all('button, select, input, nav.pages a').filter(isSeen)) {
            const { width, height } = button.getBoundingClientRect()
            if (!button.matches('.more, [type=checkbox]') && (width < 24 || height < 24)) flaw(`only ${Math.round(width)} × ${Math.round(height)} pixels`, button)
          }

          // the focus is visible
          const before = document.activeElement
          for (const control of all('a[href], button, input, select, textarea, summary, [tabindex="0"]').filter(isSeen).slice(0, 80)) {
            if (control.disabled) continue
            control.focus({ preventScroll: true })
            const style = getComputedStyle(control)
            if (document.activeElement !== control || style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < 2) flaw('the focus is not seen', control)
          }
          before?.focus({ preventScroll: true })
          return [...new Set(amiss)].slice(0, 30).join('\n')
        })()
        """#
}
