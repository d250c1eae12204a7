import type { Context } from "../context";
import { h, replace } from "../dom";
export class CellPanel {
  readonly element = h("dialog", { id: "cell", "aria-labelledby": "cell-title" });
  private id = "";
  constructor(private readonly closed: () => void) {
    this.element.addEventListener("close", () => { if (this.id) { this.id = ""; this.closed(); } });
  }
  close(): void { this.element.close(); }
  show(_: Context, id: string, _case: string): void {
    if (id === this.id) return;
    this.id = id;
    if (!id) { this.element.close(); return; }
    replace(this.element, h("h2", { id: "cell-title" }, id));
    if (!this.element.open) this.element.showModal();
  }
}
