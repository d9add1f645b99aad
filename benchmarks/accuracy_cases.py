"""The inputs of the accuracy stage with their only right answers, written before any model saw them."""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from .accuracy_methods import Booking, Call, Contact, Customer, Department, Line, Order, Visit

ACCURACY_CASES: dict[str, dict[str, Any]] = {
    "complains": {
        "The soup was cold and nobody came to ask.": True,
        "We had a wonderful evening and will be back.": False,
        "I have been waiting for my refund for six weeks!": True,
        "Could you tell me when you open on Sundays?": False,
        "The room was as lovely as in the pictures.": False,
        "For the third time the parcel was left in the rain.": True,
    },
    "department": {
        "I was charged 40 euros more than my contract says.": Department.BILLING,
        "Where is my parcel? It should have been here on Monday.": Department.DELIVERY,
        "The screen of my phone is cracked, can you mend it?": Department.REPAIRS,
        "Please send me a copy of the last invoice.": Department.BILLING,
        "The driver left the box at the wrong house.": Department.DELIVERY,
    },
    "size": {
        "I would like the large one.": "large",
        "The smallest that you have, please.": "small",
        "Something in the middle, not too big and not too small.": "medium",
        "The biggest one there is!": "large",
        "My brother wears a medium.": "medium",
    },
    "count": {
        "Seventeen swans were on the lake.": 17,
        "The library owns 1,250 maps.": 1250,
        "A dozen eggs are in the basket.": 12,
        "We counted three hundred and six lanterns.": 306,
        "There is a single key on the hook.": 1,
    },
    "weight": {
        "The melon weighs 3.4 kilograms.": 3.4,
        "The stone is 250 g.": 0.25,
        "The anchor weighs two and a half kilos.": 2.5,
        "Net weight: 0.75 kg": 0.75,
        "A cat of 4,200 grams": 4.2,
    },
    "price": {
        "The jacket costs €129.90.": Decimal("129.90"),
        "You can have it for fifty euros.": Decimal(50),
        "Total: EUR 1,049.00": Decimal("1049.00"),
        "Two euros and fifty cents, please.": Decimal("2.50"),
        "It was 80 euros, now it is 64.": Decimal(64),
    },
    "day": {
        "The wedding is on 21 September 2024.": date(2024, 9, 21),
        "He was born on the fourth of August 1961.": date(1961, 8, 4),
        "Due: 2025-02-28": date(2025, 2, 28),
        "On December 10th, 1815 she was born in London.": date(1815, 12, 10),
        "The shop was opened on 1 April 2003 and is still there.": date(2003, 4, 1),
    },
    "hour": {
        "The train leaves at 14:05.": time(14, 5),
        "Breakfast is served from 7 a.m.": time(7, 0),
        "The film begins at a quarter past eight in the evening.": time(20, 15),
        "Let us meet at noon.": time(12, 0),
        "The alarm rang at 3:45 pm.": time(15, 45),
    },
    "moment": {
        "The launch is on 12 March 2027 at 09:30.": datetime(2027, 3, 12, 9, 30),
        "She landed on July 2nd, 1937 at 8 am.": datetime(1937, 7, 2, 8, 0),
        "Concert: 31 December 2025, 23:00": datetime(2025, 12, 31, 23, 0),
        "The vote closes at 6:15 pm on 5 May 2026.": datetime(2026, 5, 5, 18, 15),
        "2024-11-08 16:20, room 4": datetime(2024, 11, 8, 16, 20),
    },
    "animals": {
        "A fox watched the hen.": ["fox", "hen"],
        "The dog slept, and the cat sat at the window.": ["dog", "cat"],
        "On the farm we saw a horse, three pigs and a goose.": ["horse", "pig", "goose"],
        "A whale came close to the boat.": ["whale"],
        "The bear ate the honey of the bees.": ["bear", "bee"],
    },
    "booking": {
        "Anna Keller wants a room in Lucca for two, with breakfast.": Booking(
            "Anna Keller", "Lucca", 2, True
        ),
        "4 guests, no breakfast, York, under the name of Sam Ford": Booking("Sam Ford", "York", 4, False),
        "Please book Delft for Jan de Wit, one guest, breakfast included.": Booking(
            "Jan de Wit", "Delft", 1, True
        ),
        "Family Moreau comes with five to Lyon. They want breakfast. Name: Paul Moreau": Booking(
            "Paul Moreau", "Lyon", 5, True
        ),
        "Tartu, without breakfast, 3 people, Mari Tamm": Booking("Mari Tamm", "Tartu", 3, False),
    },
    "contact": {
        "Write to Eva Lind at eva@lind.example.": Contact("Eva Lind", email="eva@lind.example"),
        "Tom Reed can be called at 555-0147.": Contact("Tom Reed", phone="555-0147"),
        "Ask for Nora Blum; she has neither a phone nor an email address.": Contact("Nora Blum"),
        "Max Ruiz: 555-0163, max@ruiz.example": Contact("Max Ruiz", "555-0163", "max@ruiz.example"),
        "Ines Costa moved and left no address of any kind.": Contact("Ines Costa"),
    },
    "wish": {
        "Please ring me back at 555-0119.": Call("555-0119"),
        "Could someone come to 12 Hill Road at 9 in the morning?": Visit("12 Hill Road", 9),
        "I would like to be visited at 5 Dock Street, at 3 pm.": Visit("5 Dock Street", 15),
        "Better call my office, 555-0188.": Call("555-0188"),
        "Come by at 11 am, the address is 40 Park Avenue.": Visit("40 Park Avenue", 11),
    },
    "order": {
        "Three lamps for Otto Berg in Bergen": Order(Customer("Otto Berg", "Bergen"), [Line("lamp", 3)]),
        "Lucia Sanz from Madrid orders one sofa and four pillows.": Order(
            Customer("Lucia Sanz", "Madrid"), [Line("sofa", 1), Line("pillow", 4)]
        ),
        "To: Piotr Nowak, Gdansk. 2 shelves, 10 hooks, 1 ladder": Order(
            Customer("Piotr Nowak", "Gdansk"), [Line("shelf", 2), Line("hook", 10), Line("ladder", 1)]
        ),
        "A clock, please, to Amy Stone who lives in Leeds.": Order(
            Customer("Amy Stone", "Leeds"), [Line("clock", 1)]
        ),
        "Ten candles and two vases go to Hana Mori in Kyoto.": Order(
            Customer("Hana Mori", "Kyoto"), [Line("candle", 10), Line("vase", 2)]
        ),
    },
}
